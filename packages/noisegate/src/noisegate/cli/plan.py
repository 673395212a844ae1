"""`noisegate plan`: see the price before paying, and publish what several silos are to ask; `noisegate methods`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.cli.console import OUT, print_json, show_verdict, table, warn_about_constraints
from noisegate.cli.fit import warn_about_delta
from noisegate.cli.options import Json, RunOptions, one_by_one
from noisegate.cli.shown_plan import show_plan
from noisegate.errors import OptionError
from noisegate.privacy.events import RECORD, Adjacency
from noisegate.registry import extension

if TYPE_CHECKING:
    from noisegate.methods.method import Method
    from noisegate.schema import Schema


@one_by_one
def plan_command(
    options: RunOptions,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the guarantee, 0.01 to 1000; 1 is a common choice.")
    ] = None,
    want: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ANSWER",
            help="In place of --epsilon: find the least that answers as exactly as this, for instance 'mean(wage) by "
            "sex ±2 % at 95 %' (of the range of wage) or 'wage ~ age + sex +- 0.05'; with --records. Repeatable.",
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --want or --analyses: public records, whose spread stands in for the private ones'.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the plan, for several silos to release under, or with --periods."),
    ] = None,
    periods: Annotated[
        str | None,
        typer.Option(metavar="N|open", help="Number of periods: each record arrives in one, and ε is spent once."),
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="With --periods: release only the last N periods, not all so far.")
    ] = None,
    corrections: Annotated[
        bool,
        typer.Option("--corrections", help="With --periods: a record may be withdrawn or amended once, later."),
    ] = False,
    details: Annotated[bool, typer.Option("--details", help="List the queries, with the noise of each.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a run would release, at what cost, and how accurate the result would be. Reads no data, spends nothing.

    Example: `noisegate plan --schema schema.toml --epsilon 1 --records 30000`

    A registry that grows: `noisegate plan --schema schema.toml --epsilon 1 --periods 24 --save registry.json`

    From required precision: `noisegate plan --schema schema.toml --records 30000 --want "mean(age) by sex ±2 %"`

    Images: `noisegate plan --size 28 --channels 1 --classes 10 --epsilon 1 --records 60000`
    """
    from noisegate.data.tables.tables import TableSource
    from noisegate.methods.registry import AUTO, make_for
    from noisegate.privacy.plan import Budget, linked_unit, unit_text
    from noisegate.schema import EncodedTable
    from noisegate.schema.schema import is_linked

    records, contributions = options.records, options.contributions
    if records is not None and records < 1:
        raise OptionError(f"--records {records} must be a positive whole number.")
    schema: Any = options.known()
    if like is not None and not want and options.analyses is None:
        raise OptionError(f"--like {like} goes with --want or --analyses; give one of them, or leave it out.")
    read = [] if like is None or is_linked(schema) else list(TableSource(like, schema).batches())
    stand_in = EncodedTable.concatenate(read) if read else None
    if want:
        if epsilon is not None or save is not None:
            raise OptionError(f"--want finds an epsilon: leave out {'--save' if epsilon is None else '--epsilon'}.")
        extension("noisegate.plans", "wants", "what finds an epsilon")(want, stand_in, schema, options, as_json=as_json)
        return
    if epsilon is None:
        raise OptionError("--epsilon is missing: the ε of the guarantee, such as 1; or say what is wanted by --want.")
    unit = unit_text(RECORD, options.unit_column, contributions)
    budget = Budget(
        epsilon=epsilon,
        delta=options.delta,
        adjacency=Adjacency.parse(options.adjacency),
        unit=linked_unit(schema.names) if is_linked(schema) else unit,
        contributions=contributions,
    )
    settings = options.chosen
    method = make_for(options.method, schema, settings)
    answers: dict[str, Any] = {}
    if options.analyses is not None:
        widths = extension("noisegate.plans", "widths", "what says how exact answers will be")
        answers["analyses"] = widths(stand_in, schema, options, epsilon, as_json=as_json)
    published, stream = None, None
    if periods is not None:
        stream = extension("noisegate.plans", "stream", "a stream")(periods, window, corrections)
    elif window is not None or corrections:
        raise OptionError("--window and --corrections need --periods N or --periods open.")
    if save is not None:
        method, published = _save(options, method, schema, epsilon, save, stream)
    plan: Any = method.plan(schema, budget)
    if stream is not None:
        plan, budget = stream.plan(plan), stream.at_once(budget)
    warn_about_delta(options.delta, records)
    warn_about_constraints(schema)
    why = method.why(schema, epsilon) if options.method == AUTO else None
    bounds = method.error_bounds(schema, budget, records) if records else ()
    verdict = method.verdict(schema, budget, records)
    if as_json:
        data = {"method": method.name, "reason": why, **plan.describe(records)}
        told: dict[str, Any] = {"verdict": None if verdict is None else verdict.to_json()}
        told |= {} if published is None else {"plan": published, "saved": str(save)}
        told |= {} if stream is None else {"stream": stream.to_json()}
        print_json(data | told | answers | {"error_bounds": [bound.to_json() for bound in bounds]})
        return
    if why:
        OUT.print(why)
    show_verdict(verdict)
    show_plan(plan, records, details=details)
    for bound in bounds:
        OUT.print(bound.text())
    if stream is not None:
        OUT.print(stream.text())
    if published is not None:
        following = f"Each silo: noisegate release DATA --plan {save} --silo NAME --out DIR"
        following = following if stream is None else f"First period: noisegate fit DATA --stream {save} --out DIR"
        OUT.print(f"Plan {published} is in {save}. {following}")


def _save(
    options: RunOptions, method: Method, schema: Schema, epsilon: float, out: Path, stream: Any
) -> tuple[Method, str]:
    from noisegate.runs.folder import Run

    names = ("delta", "adjacency", "records", "unit_column", "contributions")
    told: dict[str, Any] = {name: getattr(options, name) for name in names}
    told |= {"schema": options.schema or schema, "unit": RECORD, "dataset": None, "ledger": None}
    run = Run.of(method=method, epsilon=epsilon, settings={}, **told)
    if stream is not None:
        return method, str(stream.publish(run, out))
    write: Any = extension("noisegate.plans", "silos", "what publishes the plan of several silos")
    method, identifier = write(run, out)
    return method, str(identifier)


def methods_command(as_json: Json = False) -> None:
    """List the installed methods, with a line on each; the documentation lists their settings, for --set.

    Example: `noisegate methods`
    """
    from noisegate.methods.registry import list_methods

    methods = list_methods()
    if as_json:
        print_json({"methods": methods})
        return
    rows = [[one["name"], one["summary"]] for one in methods]
    OUT.print(table("Methods", {"name": "left", "what it is": "left"}, rows))
