"""`noisegate plan`: see the cost before the run. `noisegate methods`: list methods.

A plan follows from public facts alone: the schema, the budget and the method. Nothing
private is read, and nothing is spent, so that it can be asked for as often as one
likes. With --save the plan becomes a file, under which several silos release, or the
periods of a stream one after the other.

`show_plan` prints a plan, and `precision` has the options --want and --analyses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from noisegate.app.cli.console import (
    OUT,
    print_json,
    show_verdict,
    table,
    warn_about_constraints,
    warn_about_delta,
)
from noisegate.app.cli.options import Json, PlanOptions, expand_options
from noisegate.app.cli.show_plan import show_plan
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.app.runs.folder import Run
    from noisegate.methods.method import Method, Planned
    from noisegate.privacy.continual_plan import Horizon
    from noisegate.schema import EncodedTable


@expand_options
def plan_command(
    options: PlanOptions,
    epsilon: Annotated[
        float | None,
        Option(help="ε of the guarantee, 0.01 to 1000; 1 is a common choice."),
    ] = None,
    want: Annotated[
        list[str] | None,
        Option(
            metavar="ANSWER",
            help="Instead of --epsilon: find the smallest ε with this precision, for "
            "instance 'mean(wage) by sex ±2 % at 95 %' (of the range of wage) or "
            "'wage ~ age + sex +- 0.05'; with --records. Repeatable.",
        ),
    ] = None,
    like: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --want or --analyses: public records, whose spread stands in "
            "for the private ones'.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Write the plan, for several silos to release under, or with "
            "--periods.",
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

    A registry that grows: `noisegate plan --schema schema.toml --epsilon 1 --periods 24
    --save registry.json`

    From required precision: `noisegate plan --schema schema.toml --records 30000
    --want "mean(age) by sex ±2 %"`

    Images: `noisegate plan --size 28 --channels 1 --classes 10 --epsilon 1
    --records 60000`
    """
    from noisegate.methods.registry import AUTO

    records = options.request.records
    if records is not None and records < 1:
        raise OptionError(f"--records {records} must be a positive whole number.")
    schema = options.read_schema()
    if like is not None and not want and options.setting_options.analyses is None:
        raise OptionError(
            f"--like {like} goes with --want or --analyses; give one of them, or leave "
            "it out."
        )
    stand_in = None if like is None else _read_stand_in(like, schema)
    if want:
        if epsilon is not None or save is not None:
            unwanted = "--save" if epsilon is None else "--epsilon"
            raise OptionError(f"--want finds an epsilon: leave out {unwanted}.")
        from noisegate.app.cli.precision import show_smallest_epsilon

        show_smallest_epsilon(want, stand_in, schema, options, as_json=as_json)
        return
    if epsilon is None:
        raise OptionError(
            "--epsilon is missing: the ε of the guarantee, such as 1; or state the "
            "wanted precision with --want."
        )
    run = options.to_run()
    analyses: list[dict[str, Any]] | None = None
    if options.setting_options.analyses is not None:
        from noisegate.app.cli.precision import predict_widths

        analyses = predict_widths(stand_in, schema, options, epsilon, as_json=as_json)

    horizon = _read_horizon(periods, window, corrections)
    method = run.method
    plan_id: str | None = None
    if save is not None:
        method, plan_id = _publish(run, horizon, save)
    explains_choice = options.request.method == AUTO
    planned = _plan(run, method, horizon, explains_choice=explains_choice)
    warn_about_delta(options.request.delta, records)
    warn_about_constraints(schema)
    if as_json:
        fields: dict[str, Any] = planned.to_json()
        if plan_id is not None:
            fields["plan"] = plan_id
            fields["saved"] = str(save)
        if horizon is not None:
            fields["stream"] = horizon.to_json()
        if analyses is not None:
            fields["analyses"] = analyses
        print_json(fields)
        return
    _show_planned(planned, horizon, details=details)
    if plan_id is not None:
        if horizon is None:
            next_step = (
                f"Each silo: noisegate release DATA --plan {save} --silo NAME --out DIR"
            )
        else:
            next_step = f"First period: noisegate fit DATA --stream {save} --out DIR"
        OUT.print(f"Plan {plan_id} is in {save}. {next_step}")


def _read_stand_in(path: Path, schema: Any) -> EncodedTable | None:
    """Reads the public records that stand in for the private ones.

    Args:
        path: Value of --like.
        schema: A `Schema`, or a `LinkedSchema` for linked tables.

    Returns:
        The encoded records; None if there are none, or the tables are linked, of which
        no precision is predicted.
    """
    from noisegate.schema import EncodedTable
    from noisegate.schema.schema import is_linked
    from noisegate.sources.tables.tables import TableSource

    if is_linked(schema):
        return None
    batches = list(TableSource(path, schema).batches())
    return EncodedTable.concatenate(batches) if batches else None


def _read_horizon(
    periods: str | None, window: int | None, corrections: bool
) -> Horizon | None:
    """Returns the horizon of a stream; None if the plan is not one of a stream.

    Args:
        periods: Value of --periods: a number, or "open".
        window: Value of --window.
        corrections: Whether --corrections was typed.

    Raises:
        OptionError: if one of the others was typed without --periods.
    """
    if periods is not None:
        from noisegate.app.cli.streams import parse_horizon

        return parse_horizon(periods, window, corrections)
    if window is not None or corrections:
        raise OptionError(
            "--window and --corrections need --periods N or --periods open."
        )
    return None


def _publish(run: Run, horizon: Horizon | None, save: Path) -> tuple[Method, str]:
    """Writes the plan of a run to a file, for silos, or for the periods of a stream.

    Args:
        run: The run that is planned.
        horizon: That of the stream; None for silos.
        save: The new file.

    Returns:
        The method as it will run, and the identifier of the plan. For silos each
        setting that follows from ε is fixed, as the silos may differ in ε.
    """
    if horizon is not None:
        from noisegate.app.streams.published import publish_stream

        return run.method, publish_stream(run, horizon, save)
    from noisegate.app.silos.shared_plan import publish_plan

    return publish_plan(run, save)


def _plan(
    run: Run, method: Method, horizon: Horizon | None, *, explains_choice: bool
) -> Planned:
    """Returns what a run would release, at what cost, and how accurate it would be.

    Args:
        run: The run that is planned.
        method: Its method, or the one that was published.
        horizon: That of the stream; None for a single release.
        explains_choice: Whether to say why this method was chosen.
    """
    schema = run.schema
    if horizon is None:
        return method.planned(schema, run.budget, run.records, reason=explains_choice)
    from noisegate.app.silos.shared_plan import calibrated_plan

    # Noise grows over the periods, so accuracy is stated for the last release. Its
    # noise is that of a single release at a smaller ε.
    last_budget = horizon.at_once(run.budget)
    planned = method.planned(schema, last_budget, run.records, reason=explains_choice)
    single_plan = calibrated_plan(method, schema, run.budget)
    return replace(planned, plan=horizon.plan(single_plan))


def _show_planned(planned: Planned, horizon: Horizon | None, *, details: bool) -> None:
    """Prints what is known of a run before it.

    In this order: why the method was chosen, how far records can be relied on, what
    the run releases, bounds on errors, and what a stream costs.

    Args:
        planned: The planned run.
        horizon: That of the stream; None for a single release.
        details: Whether to list each query with its noise.
    """
    if planned.reason:
        OUT.print(planned.reason)
    show_verdict(planned.verdict)
    show_plan(planned.plan, planned.records, details=details)
    for bound in planned.error_bounds:
        OUT.print(bound.text())
    if horizon is not None:
        OUT.print(horizon.text())


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

    if name is None:
        methods = list_methods()
        if as_json:
            print_json({"methods": methods})
            return
        columns = {"name": "name", "what it is": "summary"}
        _show_fields("Methods", columns, methods)
        return
    method = method_named(name)
    settings = method.describe()
    if as_json:
        print_json({"methods": [{"name": method.name, "settings": settings}]})
        return
    columns = {
        "setting": "name",
        "default": "default",
        "meaning": "meaning",
        "expected": "expected",
    }
    _show_fields(f"Settings of {name}", columns, settings)


def _show_fields(
    title: str, columns: Mapping[str, str], objects: Sequence[Mapping[str, Any]]
) -> None:
    """Prints a table with a row for each JSON object.

    Args:
        title: Of the table.
        columns: For each heading the field that is shown under it.
        objects: The objects; a field that is None or () is shown as an empty cell.
    """
    rows = []
    for item in objects:
        values = [item[field] for field in columns.values()]
        rows.append(["" if value in (None, ()) else str(value) for value in values])
    OUT.print(table(title, dict.fromkeys(columns, "left"), rows))
