"""`noisegate plan`: see the price before paying. Reads no data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from noisegate.cli.arguments import (
    AdjacencyOption,
    Contributions,
    Delta,
    Epsilon,
    Json,
    Method,
    Public,
    Records,
    SchemaOption,
    Settings,
    UnitColumn,
    public_setting,
    read_settings,
)
from noisegate.cli.console import OUT, print_json, table, warn, warn_about_constraints
from noisegate.cli.image_options import (
    Channels,
    Classes,
    Convert,
    Label,
    Resize,
    Size,
    Unlabelled,
    described_schema,
)
from noisegate.errors import OptionError
from noisegate.privacy.events import RECORD, Adjacency, unit_text, used

if TYPE_CHECKING:
    from noisegate.features.error_bounds import ErrorBound
    from noisegate.methods.method import Method as MethodKind
    from noisegate.privacy.plan import MethodPlan
    from noisegate.schema import Schema

BOUNDED = "the expected absolute error of the noisy squared MMD by features against that by their kernel without noise"


def plan_command(
    context: typer.Context,
    epsilon: Epsilon,
    schema: SchemaOption = None,
    delta: Delta = 1e-5,
    records: Records = None,
    method: Method = "auto",
    public: Public = None,
    adjacency: AdjacencyOption = "add-remove",
    unit_column: UnitColumn = None,
    contributions: Contributions = None,
    settings: Settings = None,
    size: Size = None,
    channels: Channels = None,
    classes: Classes = None,
    label: Label = None,
    unlabelled: Unlabelled = False,
    resize: Resize = None,
    convert: Convert = False,
    as_json: Json = False,
) -> None:
    """Show what a run would ask, with what noise, and how much signal would be left. Reads no data, spends nothing.

    Example: `noisegate plan --schema schema.toml --epsilon 1 --records 30000`

    Images: `noisegate plan --size 28 --channels 1 --classes 10 --epsilon 1 --records 60000`
    """
    from noisegate.methods.registry import make_for
    from noisegate.privacy.plan import Budget

    if records is not None and records < 1:
        raise OptionError(f"--records {records} must be a positive whole number.")
    budget = Budget(
        epsilon=epsilon,
        delta=delta,
        adjacency=Adjacency.parse(adjacency),
        unit=unit_text(RECORD, unit_column, contributions),
        contributions=contributions,
    )
    known = described_schema(schema, context.params)
    chosen = make_for(method, known, public_setting(public) | read_settings(settings))
    calibrated = chosen.plan(known, budget)
    warn_about_delta(delta, records)
    warn_about_constraints(known)
    why = reason_of(method, chosen, known, epsilon)
    bounds = chosen.error_bounds(known, budget, records) if records else ()
    if as_json:
        data = {"method": chosen.name, "reason": why, **calibrated.describe(records)}
        print_json(data | {"error_bounds": [describe_bound(bound) for bound in bounds]})
        return
    if why:
        OUT.print(why)
    show_plan(calibrated, records)
    for bound in bounds:
        OUT.print(bound_text(bound))


def reason_of(asked: str, chosen: MethodKind, schema: Schema, epsilon: float) -> str | None:
    """Returns what `auto` does with a table or with images, and why; None for a method that was named."""
    from noisegate.methods.registry import AUTO

    return chosen.why(schema, epsilon) if asked == AUTO else None


def warn_about_delta(delta: float, records: float | None) -> None:
    """Warns when δ is no longer small against one record."""
    if records is not None and delta >= 1 / records:
        warn(
            f"delta={delta:g} is at least 1/(number of records) = {1 / records:.3g}: publishing one record outright "
            "would satisfy such a guarantee. Choose a smaller --delta."
        )


def show_plan(plan: MethodPlan, records: int | None) -> None:
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
    _show_questions(title, data["releases"])
    if records is not None:
        OUT.print(
            f"About {data['seconds_at_the_gate']:.0f} s and {data['megabytes_at_the_gate']:.0f} MB at the gate for "
            f"{records:,} records; fitting comes on top and costs no privacy."
        )


def _show_questions(title: str, releases: list[dict[str, Any]]) -> None:
    rows = [
        [
            release["name"],
            f"{'≤ ' * release['adaptive']}{release['dim']} x {release['columns']}",
            f"{release['sensitivity']:.4g}",
            f"{release['noise_std']:.4g}",
            f"{release['noise_multiplier']:.4g}",
            "-" if release["signal_to_noise"] is None else f"{release['signal_to_noise']:.3g}",
            release["sampler"],
        ]
        for release in releases
    ]
    headings = {"question": "left", "numbers": "right", "sensitivity": "right", "noise": "right"}
    headings |= {"multiple": "right", "signal": "right", "sampler": "left"}
    OUT.print(table(title, headings, rows))
    OUT.print(
        "noise: standard deviation of each number; multiple: noise / sensitivity; "
        "signal: norm of the sum / norm of its noise, at most."
    )


def _show_steps(title: str, data: dict[str, Any]) -> None:
    """Prints a plan of gradients."""
    rows = [
        ["steps", f"{data['steps']:,}", "noisy sums of gradients, one after the other"],
        ["rate", f"{data['rate']:.4g}", "chance of a record to be in the sample of a step"],
    ]
    if data["records_a_step"] is not None:
        rows.append(["records a step", f"{data['records_a_step']:,.0f}", "expected; how many they are stays private"])
    rows += [
        ["clipping norm", f"{data['clipping_norm']:.4g}", "the gradient of a record is shortened to it"],
        ["numbers", f"{data['parameters']:,}", "in a gradient"],
        ["noise multiplier", f"{data['noise_multiplier']:.4g}", "noise on each number of a sum / clipping norm"],
    ]
    if data["noise_norm_over_clipping_norm"] is not None:
        ratio = f"{data['noise_norm_over_clipping_norm']:.3g}"
        rows.append(["noise / gradient", ratio, "norms, of the mean of a step's gradients, at least"])
    OUT.print(table(title, {"training": "left", "": "right", "what it is": "left"}, rows))
    if data["releases"]:
        _show_questions("Asked beside it, within the same ε", data["releases"])
    if data["records_a_step"] is None:
        OUT.print("A fit needs --records: sums are divided by the expected number of records of a step.")
    goes_on = "cannot be taken up again" if data["releases"] else "can go on"
    OUT.print(f"Every step uses the records, which are read once and kept in memory. A stopped training {goes_on}.")


def describe_bound(bound: ErrorBound) -> dict[str, Any]:
    """Returns an error bound as a JSON object."""
    return {
        **asdict(bound),
        "chosen": asdict(bound.chosen) | {"total": bound.chosen.total},
        "least": asdict(bound.least) | {"total": bound.least.total},
        "bounds": BOUNDED,
    }


def bound_text(bound: ErrorBound) -> str:
    """Returns an error bound in words."""
    chosen, least = bound.chosen, bound.least
    lines = [
        f"Error bound of {bound.question!r} with {bound.setting}={chosen.value} ({chosen.dim:,} features): "
        f"{chosen.approximation:.3g} from the features + {chosen.noise:.3g} from the noise = {chosen.total:.3g}. "
        f"Least at {bound.setting}={least.value} ({least.dim:,}): "
        f"{least.approximation:.3g} + {least.noise:.3g} = {least.total:.3g}.",
        f"It bounds {BOUNDED} ({bound.source}): a worst case over all tables. In practice the default may do better.",
    ]
    if chosen.total >= bound.largest:
        lines.append(f"No squared MMD exceeds {bound.largest:g}: with {bound.setting}={chosen.value} it says nothing.")
    return "\n".join(lines)


def _show_marginals(data: dict[str, Any]) -> None:
    """Prints a plan whose questions are chosen on the way."""
    OUT.print(
        f"ε = {data['epsilon']:g}, δ = {data['delta']:g}, {data['adjacency']}: {data['mechanism']} spends rho = "
        f"{data['rho']:.4g} (zCDP) on counts of tables of columns, which it chooses on the way. The columns have "
        f"{', '.join(map(str, data['cells']))} cells."
    )
    tables, whole = data["megabytes_of_tables_at_the_gate"], data["megabytes_at_the_gate"]
    OUT.print(
        f"It holds all records in memory, {data['bytes_per_record_at_the_gate']} bytes each, beside {tables:.0f} MB of "
        f"exact tables{'' if whole is None else f': about {whole:.0f} MB'}."
    )
