"""`noisegate plan`: see the price before paying. `noisegate fit`: spend it once, then fit as long as it takes.

A method that trains on gradients spends it step by step, with the records at hand; see `noisegate.runs`.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.cli.console import (
    ERR,
    OUT,
    print_json,
    say,
    say_files,
    show_verdict,
    steps,
    table,
    warn,
    warn_about_constraints,
)
from noisegate.cli.options import (
    Epsilon,
    FitOptions,
    Json,
    RunOptions,
    one_by_one,
    required,
    warn_about_renamed,
)
from noisegate.errors import OptionError
from noisegate.privacy.events import RECORD, Adjacency, unit_text, used

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.observer import Observer
    from noisegate.privacy.plan import PricedPlan
    from noisegate.run_folder import Run, RunFolder
    from noisegate.runs import Model

_DATA = "DATA, the private records,"


@one_by_one
def plan_command(epsilon: Epsilon, options: RunOptions, as_json: Json = False) -> None:
    """Show what a run would ask, with what noise, and how much signal would be left. Reads no data, spends nothing.

    Example: `noisegate plan --schema schema.toml --epsilon 1 --records 30000`

    Images: `noisegate plan --size 28 --channels 1 --classes 10 --epsilon 1 --records 60000`
    """
    from noisegate.methods.registry import AUTO, make_for
    from noisegate.privacy.plan import Budget
    from noisegate.training.verdicts import verdict_of_plan

    records, contributions = options.records, options.contributions
    if records is not None and records < 1:
        raise OptionError(f"--records {records} must be a positive whole number.")
    budget = Budget(
        epsilon=epsilon,
        delta=options.delta,
        adjacency=Adjacency.parse(options.adjacency),
        unit=unit_text(RECORD, options.unit_column, contributions),
        contributions=contributions,
    )
    schema = options.known()
    settings = options.chosen
    method = make_for(options.method, schema, settings)
    warn_about_renamed(method, settings)
    plan = method.plan(schema, budget)
    warn_about_delta(options.delta, records)
    warn_about_constraints(schema)
    why = method.why(schema, epsilon) if options.method == AUTO else None
    bounds = method.error_bounds(schema, budget, records) if records else ()
    verdict = verdict_of_plan(method, schema, budget, records)
    if as_json:
        data = {"method": method.name, "reason": why, **plan.describe(records)}
        told = {"verdict": None if verdict is None else verdict.to_json()}
        print_json(data | told | {"error_bounds": [bound.to_json() for bound in bounds]})
        return
    if why:
        OUT.print(why)
    show_plan(plan, records)
    for bound in bounds:
        OUT.print(bound.text())
    show_verdict(verdict)


@one_by_one
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
    epsilon: Annotated[float | None, typer.Option(help="ε of the guarantee, 0.01 to 1000.")] = None,
    *,
    options: FitOptions,
    device: Annotated[
        str, typer.Option(help="Where to fit: auto, cpu, cuda or mps; pairwise computes on the CPU.")
    ] = "auto",
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
    folder = RunFolder(out, observer=_console_observer(options.method, as_json))
    told: dict[str, Any] = {"device": device, "show_values": show_values}
    if resume:
        model = resume_run(folder, data, given=options.typed(context), ledger=options.ledger, **told)
    else:
        records = required(data, _DATA)  # before a schema is read
        model = start_run(options.run(epsilon), records, folder, **told)
    _report(model, out, time.monotonic() - started, as_json)


def _console_observer(asked: str, as_json: bool) -> Observer:
    """Returns what tells a run to the operator; `asked` is what the method was called.

    With JSON, the plan is not shown, nor why the method is this one.
    """
    from noisegate.methods.registry import AUTO
    from noisegate.observer import Observer

    class ConsoleObserver(Observer):
        watched = ERR.is_terminal

        def option(self, name: str, *value: Any) -> str:
            if name == "data":
                return _DATA
            if name == "schema" and value and not isinstance(value[0], str | Path):
                return "What --size, --classes and the like describe"
            return " ".join([f"--{name.replace('_', '-')}", *map(str, value)])

        def setting(self, name: str, value: Any) -> str:
            return f"--{name} {value}" if name in ("seed", "public") else f"--set {name} {value}"

        def call(self, folder: RunFolder, data: Any = None) -> str:
            records = "" if data is None else f"{shlex.quote(str(data))} "
            return f"noisegate fit --resume {records}--out {shlex.quote(str(folder.out))}"

        def planned(self, run: Run, gate: Gate, plan: PricedPlan, data: Any) -> None:
            if gate.schema.images is None:
                say_files(data)
            if not as_json:
                if asked == AUTO and (why := run.method.why(gate.schema, gate.budget.epsilon)):
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

        def fitted(self, warning: str) -> None:
            warn(warning)

        def kept(self, error: BaseException, text: str, call: str) -> None:
            say(text)
            say(f"  {call}")

    return ConsoleObserver()


def _report(model: Model, out: Path, seconds: float, as_json: bool) -> None:
    from noisegate.pages import PUBLIC

    release, summary = model.release, getattr(model, "summary", None)
    certificate, counts = release.certificate, release.values.get("counts")
    records = certificate.public.get("records") or (None if counts is None else max(float(counts.sum()), 1.0))
    if certificate.public.get("records") is None:
        warn_about_delta(certificate.delta, records)
    discrepancy = summary.discrepancy if summary is not None and math.isfinite(summary.discrepancy) else None
    if as_json:
        fit = None if summary is None else summary.to_json()
        told = {"model": str(out), "seconds": seconds, "fit": fit, "noisy_records": records}
        told["warnings"] = [summary.notes["warning"]] if summary is not None and "warning" in summary.notes else []
        print_json(told | {"certificate": certificate.to_json()})
        return
    done = f"[green]Done[/green] in {seconds:.0f} s: epsilon = {certificate.epsilon:g}, delta = {certificate.delta:g}, "
    close = ""
    if summary is not None and discrepancy is not None:
        close = f" The distance to the release is {discrepancy:.2f} times what its noise explains, after "
        close += f"{summary.step} steps."
    OUT.print(f"{done}{certificate.adjacency.value}.{close}")
    notes = {} if summary is None else summary.notes
    if "effective_references" in notes:
        OUT.print(
            f"Of {notes['references']:,} public records, {notes['effective_references']:,.0f} count (effective sample "
            f"size); the heaviest has {notes['largest_share']:.2%} of the weight."
        )
    show_verdict(None if summary is None else summary.verdict)
    ending = "csv" if release.schema.images is None else "parquet"
    following = f"explain {out}" if summary is None else f"sample {out} -n 10000 -o synthetic.{ending}"
    OUT.print(f"Model and certificate: {out}, {out / 'certificate.md'}. Next: noisegate {following}")
    if (out / PUBLIC).exists():
        OUT.print(f"A page that may be published with it: {out / PUBLIC}")


def warn_about_delta(delta: float, records: float | None) -> None:
    """Warns when δ is no longer small against one record."""
    if records is not None and delta >= 1 / records:
        warn(
            f"delta={delta:g} is at least 1/(number of records) = {1 / records:.3g}: publishing one record outright "
            "would satisfy such a guarantee. Choose a smaller --delta."
        )


def show_plan(plan: PricedPlan, records: int | None) -> None:
    """Prints a plan for people."""
    data, budget = plan.describe(records), plan.budget
    if "rho" in data:
        _show_marginals(data)
        return
    title = f"ε = {budget.epsilon:g}, δ = {budget.delta:g}, {budget.adjacency.value}"
    if budget.contributions is not None:
        title += f", one unit = {used(budget.unit, budget.contributions)}"
    if "steps" in data:
        _show_steps(title, data)
        return
    _show_queries(title, data["releases"])
    if records is not None:
        OUT.print(
            f"About {data['seconds_at_the_gate']:.0f} s and {data['megabytes_at_the_gate']:.0f} MB at the gate for "
            f"{records:,} records; fitting comes on top and costs no privacy."
        )


def _show_queries(title: str, releases: list[dict[str, Any]]) -> None:
    rows = [
        [
            release["name"],
            f"{'≤ ' * release['adaptive']}{release['dim']} x {release['columns']}",
            *(f"{release[name]:.4g}" for name in ("sensitivity", "noise_std", "noise_multiplier")),
            "-" if release["signal_to_noise"] is None else f"{release['signal_to_noise']:.3g}",
            release["sampler"],
        ]
        for release in releases
    ]
    numbers = dict.fromkeys(("numbers", "sensitivity", "noise", "multiple", "signal"), "right")
    OUT.print(table(title, {"question": "left", **numbers, "sampler": "left"}, rows))
    OUT.print(
        "noise: standard deviation of each number; multiple: noise / sensitivity; "
        "signal: norm of the sum / norm of its noise, at most."
    )


def _show_steps(title: str, data: dict[str, Any]) -> None:
    """Prints a plan of gradients."""
    sampled, ratio = data["records_a_step"], data["noise_norm_over_clipping_norm"]
    rows = [
        ["steps", f"{data['steps']:,}", "noisy sums of gradients, one after the other"],
        ["rate", f"{data['rate']:.4g}", "chance of a record to be in the sample of a step"],
    ]
    if sampled is not None:
        rows.append(["records a step", f"{sampled:,.0f}", "expected; how many they are stays private"])
    rows += [
        ["clipping norm", f"{data['clipping_norm']:.4g}", "the gradient of a record is shortened to it"],
        ["numbers", f"{data['parameters']:,}", "in a gradient"],
        ["noise multiplier", f"{data['noise_multiplier']:.4g}", "noise on each number of a sum / clipping norm"],
    ]
    if ratio is not None:
        rows.append(["noise / gradient", f"{ratio:.3g}", "norms, of the mean of a step's gradients, at least"])
    OUT.print(table(title, {"training": "left", "": "right", "what it is": "left"}, rows))
    if data["releases"]:
        _show_queries("Asked beside it, within the same ε", data["releases"])
    if sampled is None:
        OUT.print("A fit needs --records: sums are divided by the expected number of records of a step.")
    goes_on = "cannot be taken up again" if data["releases"] or data.get("shards", 1) > 1 else "can go on"
    OUT.print(f"Every step uses the records, which are read once and kept in memory. A stopped training {goes_on}.")


def _show_marginals(data: dict[str, Any]) -> None:
    """Prints a plan whose queries are chosen on the way."""
    tables, whole = data["megabytes_of_tables_at_the_gate"], data["megabytes_at_the_gate"]
    OUT.print(
        f"ε = {data['epsilon']:g}, δ = {data['delta']:g}, {data['adjacency']}: {data['mechanism']} spends rho = "
        f"{data['rho']:.4g} (zCDP) on counts of tables of columns, which it chooses on the way. The columns have "
        f"{', '.join(map(str, data['cells']))} cells.\n"
        f"It holds all records in memory, {data['bytes_per_record_at_the_gate']} bytes each, beside {tables:.0f} MB of "
        f"exact tables{'' if whole is None else f': about {whole:.0f} MB'}."
    )
