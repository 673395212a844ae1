"""`noisegate plan`: see the price before paying, and publish what several silos are to ask; `noisegate methods`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from noisegate.app.cli.console import (
    OUT,
    print_json,
    show_verdict,
    table,
    warn,
    warn_about_constraints,
)
from noisegate.app.cli.options import Json, RunOptions, expand_options
from noisegate.errors import OptionError
from noisegate.privacy.events import describe_unit

if TYPE_CHECKING:
    from noisegate.privacy.plan import PricedPlan


@expand_options
def plan_command(
    options: RunOptions,
    epsilon: Annotated[
        float | None,
        Option(help="ε of the guarantee, 0.01 to 1000; 1 is a common choice."),
    ] = None,
    want: Annotated[
        list[str] | None,
        Option(
            metavar="ANSWER",
            help="In place of --epsilon: find the least that answers as exactly as this, for instance 'mean(wage) by "
            "sex ±2 % at 95 %' (of the range of wage) or 'wage ~ age + sex +- 0.05'; with --records. Repeatable.",
        ),
    ] = None,
    like: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --want or --analyses: public records, whose spread stands in for the private ones'.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Write the plan, for several silos to release under, or with --periods.",
        ),
    ] = None,
    periods: Annotated[
        str | None,
        Option(
            metavar="N|open",
            help="Number of periods: each record arrives in one, and ε is spent once.",
        ),
    ] = None,
    window: Annotated[
        int | None,
        Option(help="With --periods: release only the last N periods, not all so far."),
    ] = None,
    corrections: Annotated[
        bool,
        Option(
            "--corrections",
            help="With --periods: a record may be withdrawn or amended once, later.",
        ),
    ] = False,
    details: Annotated[
        bool, Option("--details", help="List the queries, with the noise of each.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a run would release, at what cost, and how accurate the result would be. Reads no data, spends nothing.

    Example: `noisegate plan --schema schema.toml --epsilon 1 --records 30000`

    A registry that grows: `noisegate plan --schema schema.toml --epsilon 1 --periods 24 --save registry.json`

    From required precision: `noisegate plan --schema schema.toml --records 30000 --want "mean(age) by sex ±2 %"`

    Images: `noisegate plan --size 28 --channels 1 --classes 10 --epsilon 1 --records 60000`
    """
    from noisegate.methods.registry import AUTO
    from noisegate.schema import EncodedTable
    from noisegate.schema.schema import is_linked
    from noisegate.sources.tables.tables import TableSource

    records = options.records
    if records is not None and records < 1:
        raise OptionError(f"--records {records} must be a positive whole number.")
    schema: Any = options.read_schema()
    if like is not None and not want and options.analyses is None:
        raise OptionError(
            f"--like {like} goes with --want or --analyses; give one of them, or leave it out."
        )
    read = (
        []
        if like is None or is_linked(schema)
        else list(TableSource(like, schema).batches())
    )
    stand_in = EncodedTable.concatenate(read) if read else None
    if want:
        if epsilon is not None or save is not None:
            raise OptionError(
                f"--want finds an epsilon: leave out {'--save' if epsilon is None else '--epsilon'}."
            )
        from noisegate.app.cli.infer import price_command

        price_command(want, stand_in, schema, options, as_json=as_json)
        return
    if epsilon is None:
        raise OptionError(
            "--epsilon is missing: the ε of the guarantee, such as 1; or say what is wanted by --want."
        )
    run = options.to_run(epsilon)
    answers: dict[str, Any] = {}
    if options.analyses is not None:
        from noisegate.app.cli.infer import widths_command

        answers["analyses"] = widths_command(
            stand_in, schema, options, epsilon, as_json=as_json
        )
    published, stream, method, budget = None, None, run.method, run.budget
    if periods is not None:
        from noisegate.app.cli.streams import horizon_of

        stream = horizon_of(periods, window, corrections)
    elif window is not None or corrections:
        raise OptionError(
            "--window and --corrections need --periods N or --periods open."
        )
    if save is not None and stream is not None:
        from noisegate.app.streams.published import publish_stream

        published = publish_stream(run, stream, save)
    elif save is not None:
        from noisegate.app.silos.shared_plan import publish_plan

        method, published = publish_plan(run, save)
    if stream is not None:
        budget = stream.at_once(budget)
    planned = method.planned(schema, budget, records, reason=options.method == AUTO)
    if stream is not None:
        from noisegate.app.silos.shared_plan import calibrated_plan

        once = calibrated_plan(method, schema, run.budget)
        planned = replace(planned, plan=stream.plan(once))
    warn_about_delta(options.delta, records)
    warn_about_constraints(schema)
    if as_json:
        fields: dict[str, Any] = planned.to_json()
        if published is not None:
            fields |= {"plan": published, "saved": str(save)}
        if stream is not None:
            fields["stream"] = stream.to_json()
        print_json(fields | answers)
        return
    if planned.reason:
        OUT.print(planned.reason)
    show_verdict(planned.verdict)
    show_plan(planned.plan, records, details=details)
    for bound in planned.error_bounds:
        OUT.print(bound.text())
    if stream is not None:
        OUT.print(stream.text())
    if published is not None:
        following = (
            f"Each silo: noisegate release DATA --plan {save} --silo NAME --out DIR"
        )
        following = (
            following
            if stream is None
            else f"First period: noisegate fit DATA --stream {save} --out DIR"
        )
        OUT.print(f"Plan {published} is in {save}. {following}")


def methods_command(
    name: Annotated[
        str | None, Argument(help="A method, to list its settings.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the installed methods, with a line on each, or the settings of one, for --set.

    Example: `noisegate methods`, `noisegate methods dp-merf`
    """
    from noisegate.methods.registry import list_methods, method_named

    told: list[Any] = list_methods() if name is None else method_named(name).describe()
    if as_json:
        print_json(
            {
                "methods": told
                if name is None
                else [{"name": method_named(name).name, "settings": told}]
            }
        )
        return
    shown = {
        "setting": "name",
        "default": "default",
        "meaning": "meaning",
        "expected": "expected",
    }
    shown = {"name": "name", "what it is": "summary"} if name is None else shown
    rows = [
        [
            "" if (value := one[key]) in (None, ()) else str(value)
            for key in shown.values()
        ]
        for one in told
    ]
    OUT.print(
        table(
            "Methods" if name is None else f"Settings of {name}",
            dict.fromkeys(shown, "left"),
            rows,
        )
    )


def warn_about_delta(delta: float, records: float | None) -> None:
    """Warns when δ is no longer small against one record."""
    if records is not None and delta >= 1 / records:
        warn(
            f"delta={delta:g} is at least 1/(number of records) = {1 / records:.3g}: publishing one record outright "
            "would satisfy such a guarantee. Choose a smaller --delta."
        )


def show_plan(plan: PricedPlan, records: int | None, *, details: bool = False) -> None:
    """Prints a plan for people in a line, or with `details` query by query."""
    data, budget = plan.describe(records), plan.budget
    if "rho" in data:
        _show_marginals(data)
        return
    title = f"ε = {budget.epsilon:g}, δ = {budget.delta:g}, {budget.adjacency.value}"
    if budget.contributions is not None:
        title += f", privacy unit: {describe_unit(budget.unit, budget.contributions)}"
    queries, steps = data["releases"], data.get("steps")
    if not details:
        values = sum(query["dim"] * query["columns"] for query in queries)
        told = (
            []
            if steps is None
            else [
                f"{steps:,} noisy sums of {_VECTORS[data.get('vectors_of', 'records')][0]}"
            ]
        )
        told += (
            [f"{len(queries)} queries, {values:,} noisy values at most"]
            if queries
            else []
        )
        OUT.print(f"{title}: {', '.join(told)}.", soft_wrap=True)
    elif steps is None:
        _show_queries(title, queries)
    if steps is not None:
        _show_steps(title, data, details=details)
    elif records is not None:
        OUT.print(
            f"About {data['seconds_at_the_gate']:.0f} s and {data['megabytes_at_the_gate']:.0f} MB at the gate for "
            f"{records:,} records; fitting takes additional time and costs no privacy."
        )


def _show_queries(title: str, releases: list[dict[str, Any]]) -> None:
    samplers = list(dict.fromkeys(release["sampler"] for release in releases))
    told = {"sampler": "left"} if len(samplers) > 1 else {}
    rows = [
        [
            release["name"],
            f"{'≤ ' * release['adaptive']}{release['dim']} x {release['columns']}",
            *(
                f"{release[name]:.4g}"
                for name in ("sensitivity", "noise_std", "noise_multiplier")
            ),
            "-"
            if release["signal_to_noise"] is None
            else f"{release['signal_to_noise']:.3g}",
            *(release[name] for name in told),
        ]
        for release in releases
    ]
    numbers = dict.fromkeys(
        ("values", "sensitivity", "noise", "multiplier", "signal"), "right"
    )
    OUT.print(table(title, {"query": "left", **numbers, **told}, rows))
    OUT.print(
        "noise: standard deviation of each value; multiplier: noise / sensitivity; "
        "signal: norm of the sum / norm of its noise, at most."
        + ("" if told else f" Sampler: {samplers[0]}.")
    )


_VECTORS = {
    "records": ("gradients", "gradient of a record"),
    "samples": ("vectors, each of a whole sample", "vector of a sample"),
    "shards": ("answers of teachers", "answer of a teacher"),
}
"""What a plan of steps adds up, by `vectors_of` in its description, and one of them."""

_DROWNED = 0.5
"""Noise over all steps beside what teachers say, of which generators of images learn next to nothing. On simulated
digits DataLens' labels reached .36, .22 and .10 at 0.11, 0.33 and 0.84 (of logistic regression, by chance .10)."""


def _show_steps(title: str, data: dict[str, Any], *, details: bool) -> None:
    of_shards = data.get("vectors_of") == "shards"
    if details:
        OUT.print(
            table(
                title,
                {"training": "left", "": "right", "what it is": "left"},
                _step_rows(data),
            )
        )
        if data["releases"]:
            _show_queries("Further queries, within the same ε", data["releases"])
    if of_shards:
        over_all = data["noise_norm_over_clipping_norm"] / math.sqrt(data["steps"])
        if over_all > _DROWNED:
            OUT.print(
                "The noise exceeds what the teachers say: if all agreed in every step, the noise of all steps together "
                f"would be {over_all:.2g} times their sum. Use more teachers, fewer values or a larger epsilon."
            )
    elif data["records_a_step"] is None:
        OUT.print(
            "A fit needs --records: sums are divided by the expected number of records of a step."
        )
    goes_on = "cannot be resumed" if data["releases"] or of_shards else "can be resumed"
    OUT.print(
        f"Every step uses the records, which are read once and kept in memory. An interrupted training {goes_on}."
    )


def _step_rows(data: dict[str, Any]) -> list[list[str]]:
    of = data.get("vectors_of", "records")
    (vectors, vector), sampled, ratio = (
        _VECTORS[of],
        data["records_a_step"],
        data["noise_norm_over_clipping_norm"],
    )
    chosen = (
        "that a step queries a teacher"
        if of == "shards"
        else "that a step's sample includes a record"
    )
    rows = [
        [
            "steps",
            f"{data['steps']:,}",
            f"noisy sums of {vectors}, one after the other",
        ],
        ["sampling rate", f"{data['rate']:.4g}", f"probability {chosen}"],
    ]
    if data.get("shards", 1) > 1:
        rows.append(["shards", f"{data['shards']:,}", "disjoint parts of the records"])
    if sampled is not None:
        rows.append(
            [
                "records a step",
                f"{sampled:,.0f}",
                "expected; how many they are stays private",
            ]
        )
    rows += [
        [
            "clipping norm",
            f"{data['clipping_norm']:.4g}",
            f"most that the {vector} may have",
        ],
        ["values", f"{data['parameters']:,}", f"in the {vector}"],
        [
            "noise multiplier",
            f"{data['noise_multiplier']:.4g}",
            "noise on each value of a sum / sensitivity",
        ],
    ]
    if ratio is not None:
        rows.append(
            [
                "noise / mean",
                f"{ratio:.3g}",
                f"norms, of the mean of a step's {vectors}, at least",
            ]
        )
    return rows


def _show_marginals(data: dict[str, Any]) -> None:
    tables, whole = (
        data["megabytes_of_tables_at_the_gate"],
        data["megabytes_at_the_gate"],
    )
    OUT.print(
        f"ε = {data['epsilon']:g}, δ = {data['delta']:g}, {data['adjacency']}: {data['mechanism']} spends rho = "
        f"{data['rho']:.4g} (zCDP) on counts of tables of columns, which it chooses on the way. The columns have "
        f"{', '.join(map(str, data['cells']))} cells.\n"
        f"It holds all records in memory, {data['bytes_per_record_at_the_gate']} bytes each, beside {tables:.0f} MB of "
        f"exact tables{'' if whole is None else f': about {whole:.0f} MB'}. After each choice a model is fitted, "
        "which may take minutes in all."
    )
