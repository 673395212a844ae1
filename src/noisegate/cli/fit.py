"""`noisegate fit`: spend the budget once, then fit as long as it takes.

A method that trains on gradients spends it step by step, with the records at hand; see `training`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from noisegate.cli.arguments import (
    AdjacencyOption,
    Contributions,
    Delta,
    Json,
    LedgerOption,
    Method,
    Public,
    Records,
    SchemaOption,
    Seed,
    Settings,
    UnitColumn,
    public_setting,
    read_settings,
)
from noisegate.cli.console import OUT, closeness, print_json, say, steps, warn, warn_about_constraints
from noisegate.cli.image_options import (
    Channels,
    Classes,
    Convert,
    Label,
    OnError,
    Resize,
    Size,
    Unlabelled,
    described_schema,
    given_options,
)
from noisegate.cli.plan import coordinates, reason_of, show, warn_about_delta
from noisegate.cli.reading import check_outside, say_files
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.cli.run import Run
    from noisegate.cli.unfinished import Unfinished
    from noisegate.fitting.loop import FitState
    from noisegate.methods.catalogue import AnyMethod
    from noisegate.methods.method import Method as MethodKind
    from noisegate.privacy.release import Release
    from noisegate.synthesizer import FitSummary

CHECKPOINT_SECONDS = 20.0
_KEPT = ("delta", "adjacency", "records", "unit", "unit_column", "contributions", "dataset", "ledger", "on_error")
_DATA = "DATA, the private records,"
_T = TypeVar("_T")


def fit(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model folder to make.")],
    data: Annotated[
        str | None,
        typer.Argument(
            help="Private records: a CSV or Parquet file, or a folder of them. Private images: a folder of class "
            "folders or with labels.csv, Parquet with an image column, an .npz file, or a torchvision data set on disk."
        ),
    ] = None,
    schema: SchemaOption = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="ε of the guarantee, 0.01 to 1000.")] = None,
    delta: Delta = 1e-5,
    method: Method = "auto",
    public: Public = None,
    adjacency: AdjacencyOption = "add-remove",
    records: Records = None,
    unit: Annotated[str, typer.Option("--unit", help="What one record stands for.")] = "record",
    unit_column: UnitColumn = None,
    contributions: Contributions = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="Book the cost on this data set of the ledger.")
    ] = None,
    ledger: LedgerOption = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option("--device", help="Where to fit: auto, cpu, cuda or mps.")] = "auto",
    settings: Settings = None,
    size: Size = None,
    channels: Channels = None,
    classes: Classes = None,
    label: Label = None,
    unlabelled: Unlabelled = False,
    resize: Resize = None,
    convert: Convert = False,
    on_error: OnError = "refuse",
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with an interrupted fit; costs nothing. Reads no data, but for a training whose steps are not "
            "done: that needs DATA again.",
        ),
    ] = False,
    show_values: Annotated[bool, typer.Option("--show-values", help="Let errors quote private values.")] = False,
    as_json: Json = False,
) -> None:
    """Fit a model to private records: spends ε once, then only what has left the gate is used.

    Example: `noisegate fit patients.csv --schema schema.toml --epsilon 1 --out model --dataset clinic-2026`

    Images: `noisegate fit scans/ --size 28 --channels 1 --classes 10 --epsilon 1 --out model`, or with the same in a
    file: `noisegate fit scans/ --schema images.toml --epsilon 1 --out model`
    """
    from noisegate.cli.interrupts import held
    from noisegate.cli.training import taken_up
    from noisegate.cli.unfinished import Unfinished

    started = time.monotonic()
    unfinished = Unfinished(out)
    with held() as may_stop:
        if resume and not unfinished.training:
            release, chosen = unfinished.reopen(_typed(context).get("seed"))
            _check_device(chosen, device)
            say(f"Going on with {out}: nothing is read or spent.")
        else:
            run = taken_up(unfinished, data, _typed(context), ledger) if resume else _new_run(context.params)
            chosen, shown = run.method, None if as_json else method
            release = _ask(
                unfinished,
                run,
                _required(data, _DATA),
                device,
                may_stop,
                shown=shown,
                show_values=show_values,
                going_on=resume,
            )
        summary = _finish(unfinished, chosen, release, device, may_stop)
    _report(release, summary, out, time.monotonic() - started, as_json)


def _new_run(options: Mapping[str, Any]) -> Run:
    """Returns what the options ask for."""
    from noisegate.cli.run import Run
    from noisegate.methods.for_images import make_for
    from noisegate.schema_cost import discovery_beside

    _required(options["data"], _DATA)
    schema, epsilon = described_schema(options["schema"], options), _required(options["epsilon"], "--epsilon")
    settings = {"seed": options["seed"], **public_setting(options["public"]), **read_settings(options["settings"])}
    method = make_for(options["method"], schema, settings)
    discovery = None if options["schema"] is None else discovery_beside(options["schema"])
    return Run(
        method=method,
        schema=schema,
        epsilon=epsilon,
        discovery=None if discovery is None else discovery.to_json(),
        **{name: options[name] for name in _KEPT},
    )


def _typed(context: typer.Context) -> dict[str, Any]:
    """Returns the options that stand on the command line, and not those that have their defaults.

    Those that describe images are one, "images": the schema that they describe.
    """
    sources = {name: context.get_parameter_source(name) for name in context.params}
    images = given_options(context.params)
    typed: dict[str, Any] = {
        name: read_settings(value) if name == "settings" else value
        for name, value in context.params.items()
        if getattr(sources[name], "name", None) == "COMMANDLINE" and name not in images
    }
    return typed | ({"images": described_schema(typed.get("schema"), images)} if images else {})


def _required(value: _T | None, what: str) -> _T:
    if value is None:
        raise OptionError(
            f"{what} is missing; for instance: noisegate fit data.csv --schema schema.toml --epsilon 1 --out model"
        )
    return value


def _check_device(chosen: AnyMethod, device: str) -> None:
    """Finds what would stop the fit, before any budget is spent."""
    from noisegate.methods.llm import DPLLM

    if not isinstance(chosen, DPLLM):
        chosen.check_fit(device)
        return
    from noisegate.fitting.device import choose_device

    choose_device(device)


def _ask(
    unfinished: Unfinished,
    run: Run,
    data: str,
    device: str,
    may_stop: Callable[[], None],
    *,
    shown: str | None,
    show_values: bool,
    going_on: bool,
) -> Release:
    """Reads the records; returns the release, which is on disk by then.

    `shown` is what the method was called, so that the plan is shown, and why it is this one; None to show nothing.
    """
    from noisegate.cli.training import train
    from noisegate.privacy.gradient_plan import CalibratedGradientPlan

    def count(done: int) -> None:
        may_stop()
        # Rounded: the exact number is private, and screens are recorded.
        progress(0, f"over {done - done % 10_000:,}")

    chosen = run.method
    _check_device(chosen, device)
    gate = run.gate(data, show_values=show_values, progress=count)
    check_outside(unfinished.out, data)
    if gate.schema.images is None:
        say_files(data)
    plan = chosen.plan(gate.schema, gate.budget)
    with nullcontext() if going_on else unfinished.prepared(coordinates(plan)):
        if shown is not None:
            why = reason_of(shown, chosen, gate.schema, gate.budget.epsilon)
            if why:
                say(why)
            show(plan, gate.records)
        warn_about_delta(gate.budget.delta, gate.records)
        warn_about_constraints(gate.schema)
        if run.dataset is None:
            warn("no --dataset: the cost is booked nowhere. Costs of several runs on the same records add up.")
        if isinstance(plan, CalibratedGradientPlan):
            with steps("Training", plan.plan.steps) as progress:
                told: dict[str, Any] = {"device": device, "may_stop": may_stop, "progress": progress}
                release = train(unfinished, run, gate, plan, data=data, **told)
        else:
            with steps("Reading records", None) as progress:
                release = chosen.ask(gate)
        unfinished.keep(release)
    if gate.skipped:
        warn(f"{gate.skipped:,} images could not be used and were left out. How many is private: keep it to yourself.")
    return release


def _finish(
    unfinished: Unfinished, chosen: AnyMethod, release: Release, device: str, may_stop: Callable[[], None]
) -> FitSummary | None:
    """Fits and saves; returns how the fit ended. A classifier is in its release, and there is nothing to fit."""
    from noisegate.methods.llm import DPLLM

    if not isinstance(chosen, DPLLM):
        return _fit(unfinished, chosen, release, device, may_stop)
    try:
        chosen.classifier(release).save(unfinished.out)
    except BaseException:
        _say_what_is_kept(unfinished, "Stopped before the classifier was written.")
        raise
    unfinished.remove()
    return None


def _fit(
    unfinished: Unfinished, chosen: MethodKind, release: Release, device: str, may_stop: Callable[[], None]
) -> FitSummary:
    """Fits and saves; whatever stops it, the budget is not lost."""
    fitting = chosen.fitting(release, device=device)
    unfinished.restore(fitting)
    saved = time.monotonic()

    with steps("Fitting", fitting.steps) as progress:

        def report(state: FitState) -> None:
            nonlocal saved
            may_stop()
            progress(state.step, closeness(state.discrepancy))
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                unfinished.checkpoint(fitting)
                saved = time.monotonic()

        try:
            fitting.run(report)
            synthesizer = chosen.synthesizer(release, fitting)
            synthesizer.save(unfinished.out)
        except BaseException:
            unfinished.checkpoint(fitting)
            _say_what_is_kept(unfinished, f"Stopped at step {fitting.step}.")
            raise
    unfinished.remove()
    return synthesizer.summary


def _say_what_is_kept(unfinished: Unfinished, stopped: str) -> None:
    if unfinished.resumable:
        say(f"{stopped} The budget is spent and the release is kept; go on with:")
        say(f"  noisegate fit --resume --out {unfinished.out}")


def _report(release: Release, summary: FitSummary | None, out: Path, seconds: float, as_json: bool) -> None:
    certificate, counts = release.certificate, release.values.get("counts")
    records = certificate.public.get("records") or (None if counts is None else max(float(counts.sum()), 1.0))
    if certificate.public.get("records") is None:
        warn_about_delta(certificate.delta, records)
    discrepancy = summary.discrepancy if summary is not None and math.isfinite(summary.discrepancy) else None
    if as_json:
        print_json(
            {
                "model": str(out),
                "seconds": seconds,
                "fit": None if summary is None else {**asdict(summary), "discrepancy": discrepancy},
                "noisy_records": records,
                "certificate": certificate.to_json(),
            }
        )
        return
    OUT.print(
        f"[green]Done[/green] in {seconds:.0f} s: epsilon = {certificate.epsilon:g}, delta = {certificate.delta:g}, "
        f"{certificate.adjacency.value}."
        + (
            f" The distance to the release is {discrepancy:.2f} times what its noise explains, after "
            f"{summary.step} steps."
            if summary is not None and discrepancy is not None
            else ""
        )
    )
    _say_notes({} if summary is None else summary.notes)
    ending = "csv" if release.schema.images is None else "parquet"
    following = f"explain {out}" if summary is None else f"sample {out} -n 10000 -o synthetic.{ending}"
    OUT.print(f"Model and certificate: {out}, {out / 'certificate.md'}. Next: noisegate {following}")


def _say_notes(notes: Mapping[str, Any]) -> None:
    """Says what else the method reports: on how many public records weights rest, and what is to be warned of."""
    if "warning" in notes:
        warn(notes["warning"])
    if "effective_references" in notes:
        OUT.print(
            f"Of {notes['references']:,} public records, {notes['effective_references']:,.0f} count (effective sample "
            f"size); the heaviest has {notes['largest_share']:.2%} of the weight."
        )
