"""`noisegate fit`: spend the budget once, then fit as long as it takes.

A method that trains on gradients spends it step by step, with the records at hand; see `noisegate.runs`.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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
from noisegate.cli.console import ERR, OUT, print_json, say, say_files, steps, warn, warn_about_constraints
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
from noisegate.cli.plan import reason_of, show_plan, warn_about_delta
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.models.synthesizer import FitSummary
    from noisegate.privacy.plan import MethodPlan
    from noisegate.privacy.release import Release
    from noisegate.run_folder import Observer, Run, RunFolder

_KEPT = (
    *("method", "epsilon", "delta", "adjacency", "records", "unit", "unit_column", "contributions", "dataset"),
    "on_error",
)
_DATA = "DATA, the private records,"
_T = TypeVar("_T")


def fit_command(
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
    from noisegate.run_folder import RunFolder
    from noisegate.runs import resume_run, start_run

    started = time.monotonic()
    folder, observer = RunFolder(out), _console_observer(method, as_json)
    told: dict[str, Any] = {"device": device, "observer": observer, "show_values": show_values}
    if resume:
        model = resume_run(folder, data, given=_typed(context), ledger=ledger, **told)
    else:
        model = start_run(_new_run(context.params), _required(data, _DATA), folder, **told)
    _report(model.release, getattr(model, "summary", None), out, time.monotonic() - started, as_json)


def _new_run(options: Mapping[str, Any]) -> Run:
    """Returns what the options ask for."""
    from noisegate.ledger.ledger import Ledger
    from noisegate.run_folder import Run

    _required(options["data"], _DATA)
    schema, _ = described_schema(options["schema"], options), _required(options["epsilon"], "--epsilon")
    asked = {name: options[name] for name in _KEPT}
    asked["ledger"] = None if options["dataset"] is None else Ledger(options["ledger"])
    settings = {"seed": options["seed"], **public_setting(options["public"]), **read_settings(options["settings"])}
    return Run.of(schema=options["schema"] or schema, settings=settings, **asked)


def _typed(context: typer.Context) -> dict[str, Any]:
    """Returns the options that stand on the command line, and not those that have their defaults.

    Those that describe images are the schema that they describe.
    """
    sources = {name: context.get_parameter_source(name) for name in context.params}
    images = given_options(context.params)
    typed: dict[str, Any] = {
        name: value
        for name, value in context.params.items()
        if getattr(sources[name], "name", None) == "COMMANDLINE" and name not in images
    }
    settings = read_settings(typed.pop("settings", None))
    settings |= {name: typed.pop(name) for name in ("seed", "public") if name in typed}
    return (
        typed | {"settings": settings} | ({"schema": described_schema(typed.get("schema"), images)} if images else {})
    )


def _required(value: _T | None, what: str) -> _T:
    if value is None:
        raise OptionError(
            f"{what} is missing; for instance: noisegate fit data.csv --schema schema.toml --epsilon 1 --out model"
        )
    return value


def _console_observer(asked: str, as_json: bool) -> Observer:
    """Returns what tells a run to the operator; `asked` is what the method was called.

    With JSON, the plan is not shown, nor why the method is this one.
    """
    from noisegate.run_folder import Observer

    class ConsoleObserver(Observer):
        watched = ERR.is_terminal

        def option(self, name: str, *value: Any) -> str:
            if name == "data":
                return _DATA.rstrip(",") + ","
            if name == "schema" and value and not isinstance(value[0], str | Path):
                return "What --size, --classes and the like describe"
            return " ".join([f"--{name.replace('_', '-')}", *map(str, value)])

        def setting(self, name: str, value: Any) -> str:
            return f"--{name} {value}" if name in ("seed", "public") else f"--set {name} {value}"

        def call(self, folder: RunFolder, data: Any = None) -> str:
            records = "" if data is None else f"{shlex.quote(str(data))} "
            return f"noisegate fit --resume {records}--out {shlex.quote(str(folder.out))}"

        def planned(self, run: Run, gate: Gate, plan: MethodPlan, data: Any) -> None:
            if gate.schema.images is None:
                say_files(data)
            if not as_json:
                why = reason_of(asked, run.method, gate.schema, gate.budget.epsilon)
                if why:
                    say(why)
                show_plan(plan, gate.records)
            warn_about_delta(gate.budget.delta, gate.records)
            warn_about_constraints(gate.schema)
            if run.dataset is None:
                warn("no --dataset: the cost is booked nowhere. Costs of several runs on the same records add up.")

        def working(self, title: str, total: int | None) -> AbstractContextManager[Callable[[int, str], None]]:
            return steps(title, total)

        def queried(self, gate: Gate) -> None:
            if gate.skipped:
                left_out = f"{gate.skipped:,} images could not be used and were left out."
                warn(f"{left_out} How many is private: keep it to yourself.")

        def say(self, text: str) -> None:
            say(text)

        def warn(self, text: str) -> None:
            warn(text)

        def kept(self, error: BaseException, text: str, call: str) -> None:
            say(text)
            say(f"  {call}")

    return ConsoleObserver()


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
