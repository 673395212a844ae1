"""`noisegate fit`: spend the budget once, then fit as long as it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
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
    Records,
    SchemaOption,
    Seed,
    Settings,
    UnitColumn,
    read_settings,
    require_schema,
)
from noisegate.cli.console import OUT, closeness, print_json, say, steps, warn
from noisegate.cli.plan import describe, reason_of, show, warn_about_delta
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.cli.unfinished import Unfinished
    from noisegate.fitting.loop import FitState
    from noisegate.methods.method import Method as MethodKind
    from noisegate.privacy.release import Release
    from noisegate.synthesizer import Synthesizer

CHECKPOINT_SECONDS = 20.0
_T = TypeVar("_T")


def fit(
    out: Annotated[Path, typer.Option("--out", "-o", help="Model folder to make.")],
    data: Annotated[
        str | None, typer.Argument(help="Private records: a CSV or Parquet file, or a folder of them.")
    ] = None,
    schema: SchemaOption = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="ε of the guarantee, 0.01 to 1000.")] = None,
    delta: Delta = 1e-5,
    method: Method = "auto",
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
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted fit; reads no data, costs nothing.")
    ] = False,
    show_values: Annotated[bool, typer.Option("--show-values", help="Let errors quote private values.")] = False,
    as_json: Json = False,
) -> None:
    """Fit a model to private records: spends ε once, then only what has left the gate is used.

    Example: `noisegate fit patients.csv --schema schema.toml --epsilon 1 --out model --dataset clinic-2026`
    """
    from noisegate.cli.interrupts import held
    from noisegate.cli.unfinished import Unfinished

    started = time.monotonic()
    unfinished = Unfinished(out)
    with held() as may_stop:
        if resume:
            release, chosen = unfinished.reopen()
            chosen.check_fit(device)
            say(f"Going on with {out}: nothing is read or spent.")
        else:
            chosen, release = _ask(
                unfinished,
                _required(data, "DATA, the private records,"),
                method,
                {"seed": seed, **read_settings(settings)},
                device,
                may_stop,
                quiet=as_json,
                schema=require_schema(schema),
                epsilon=_required(epsilon, "--epsilon"),
                delta=delta,
                adjacency=adjacency,
                records=records,
                unit=unit,
                unit_column=unit_column,
                contributions=contributions,
                dataset=dataset,
                ledger=ledger,
                show_values=show_values,
            )
        synthesizer = _finish(unfinished, chosen, release, device, may_stop)
    _report(synthesizer, out, time.monotonic() - started, as_json)


def _required(value: _T | None, what: str) -> _T:
    if value is None:
        raise OptionError(
            f"{what} is missing; for instance: noisegate fit data.csv --schema schema.toml --epsilon 1 --out model"
        )
    return value


def _ask(
    unfinished: Unfinished,
    data: str,
    method: str,
    settings: dict[str, Any],
    device: str,
    may_stop: Callable[[], None],
    *,
    quiet: bool,
    schema: Path,
    dataset: str | None,
    ledger: str | None,
    **budget: Any,
) -> tuple[MethodKind, Release]:
    """Reads the records once; returns the method, and the release, which is on disk by then."""
    from noisegate.gate.gate import Gate
    from noisegate.methods.catalogue import make_method
    from noisegate.privacy.ledger import Ledger
    from noisegate.schema import Schema

    def count(done: int) -> None:
        may_stop()
        # Rounded: the exact number is private, and screens are recorded.
        progress(0, f"over {done - done % 10_000:,}")

    chosen = make_method(method, settings)
    chosen.check_fit(device)
    gate = Gate(
        data,
        schema=Schema.from_toml(schema),
        ledger=Ledger(ledger) if dataset is not None else None,
        dataset=dataset,
        progress=count,
        **budget,
    )
    plan = chosen.plan(gate.schema, gate.budget)
    with unfinished.prepared(describe(plan, None)["coordinates"]):
        if not quiet:
            why = reason_of(method, chosen, gate.schema, gate.budget.epsilon)
            if why:
                say(why)
            show(plan, gate.records)
        warn_about_delta(gate.budget.delta, gate.records)
        if dataset is None:
            warn("no --dataset: the cost is booked nowhere. Costs of several runs on the same records add up.")
        with steps("Reading records", None) as progress:
            release = chosen.ask(gate)
        unfinished.keep(release)
    return chosen, release


def _finish(
    unfinished: Unfinished, chosen: MethodKind, release: Release, device: str, may_stop: Callable[[], None]
) -> Synthesizer:
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
            if unfinished.resumable:
                say(f"Stopped at step {fitting.step}. The budget is spent and the release is kept; go on with:")
                say(f"  noisegate fit --resume --out {unfinished.out}")
            raise
    unfinished.remove()
    return synthesizer


def _report(synthesizer: Synthesizer, out: Path, seconds: float, as_json: bool) -> None:
    certificate, summary = synthesizer.certificate, synthesizer.summary
    counts = synthesizer.release.values.get("counts")
    records = certificate.public.get("records") or (None if counts is None else max(float(counts.sum()), 1.0))
    if certificate.public.get("records") is None:
        warn_about_delta(certificate.delta, records)
    if as_json:
        print_json(
            {
                "model": str(out),
                "seconds": seconds,
                "fit": {
                    "step": summary.step,
                    "steps": summary.steps,
                    "discrepancy": summary.discrepancy if math.isfinite(summary.discrepancy) else None,
                },
                "noisy_records": records,
                "certificate": certificate.to_json(),
            }
        )
        return
    OUT.print(
        f"[green]Done[/green] in {seconds:.0f} s: epsilon = {certificate.epsilon:g}, delta = {certificate.delta:g}, "
        f"{certificate.adjacency.value}."
        + (
            f" The distance to the release is {summary.discrepancy:.2f} times what its noise explains, after "
            f"{summary.step} steps."
            if math.isfinite(summary.discrepancy)
            else ""
        )
    )
    OUT.print(
        f"Model and certificate: {out}, {out / 'certificate.md'}. "
        f"Next: noisegate sample {out} -n 10000 -o synthetic.csv"
    )
