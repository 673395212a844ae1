"""`noisegate plan`: see the price before paying. Reads no data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from noisegate.cli.arguments import (
    AdjacencyOption,
    Delta,
    Epsilon,
    Json,
    Method,
    Records,
    SchemaOption,
    Settings,
    read_settings,
    require_schema,
)
from noisegate.cli.console import OUT, print_json, table, warn
from noisegate.errors import OptionError
from noisegate.privacy.adjacency import Adjacency

if TYPE_CHECKING:
    from noisegate.privacy.plan import CalibratedPlan


def plan(
    epsilon: Epsilon,
    schema: SchemaOption = None,
    delta: Delta = 1e-5,
    records: Records = None,
    method: Method = "dp-merf",
    adjacency: AdjacencyOption = "add-remove",
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Show what a run would ask, with what noise, and how much signal would be left. Reads no data, spends nothing.

    Example: `noisegate plan --schema schema.toml --epsilon 1 --records 30000`
    """
    from noisegate.methods.catalogue import make_method
    from noisegate.privacy.plan import Budget
    from noisegate.schema import Schema

    if records is not None and records < 1:
        raise OptionError(f"--records {records} must be a positive whole number.")
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency.parse(adjacency))
    calibrated = make_method(method, read_settings(settings)).plan(Schema.from_toml(require_schema(schema)), budget)
    warn_about_delta(delta, records)
    if as_json:
        print_json(describe(calibrated, records))
    else:
        show(calibrated, records)


def warn_about_delta(delta: float, records: float | None) -> None:
    """Warns when δ is no longer small against one record."""
    if records is not None and delta >= 1 / records:
        warn(
            f"delta={delta:g} is at least 1/(number of records) = {1 / records:.3g}: publishing one record outright "
            "would satisfy such a guarantee. Choose a smaller --delta."
        )


def describe(plan: CalibratedPlan, records: int | None) -> dict[str, Any]:
    """Returns a calibrated plan as a JSON object."""
    releases = []
    for release in plan.releases:
        question = release.question
        noise_norm = release.noise_std_natural * math.sqrt(question.coordinates)
        releases.append(
            {
                "name": question.name,
                "dim": question.dim,
                "columns": question.columns,
                "norm": question.norm,
                "sensitivity": release.sensitivity / question.grid.scale,
                "sensitivity_grid": release.sensitivity,
                "noise_std": release.noise_std_natural,
                "noise_std_grid": release.noise_std,
                "noise_multiplier": release.event.noise_multiplier,
                "sampler": release.sampler.value,
                "signal_to_noise": None if records is None else records * question.norm / noise_norm,
            }
        )
    coordinates = sum(release.question.coordinates for release in plan.releases)
    width = sum(release.question.dim for release in plan.releases)
    return {
        "epsilon": plan.budget.epsilon,
        "delta": plan.budget.delta,
        "adjacency": plan.budget.adjacency.value,
        "unit": plan.budget.unit,
        "releases": releases,
        "coordinates": coordinates,
        # Rough: about 4e8 features a second on one core, and two int64 sums a thread beside 300 MB of libraries.
        "seconds_at_the_gate": None if records is None else records * width / 4e8 + coordinates / 1e5,
        "megabytes_at_the_gate": 300 + coordinates * 8 * 8 / 1e6,
    }


def show(plan: CalibratedPlan, records: int | None) -> None:
    """Prints a calibrated plan for people."""
    data = describe(plan, records)
    rows = [
        [
            release["name"],
            f"{release['dim']} x {release['columns']}",
            f"{release['sensitivity']:.4g}",
            f"{release['noise_std']:.4g}",
            f"{release['noise_multiplier']:.4g}",
            "-" if records is None else f"{release['signal_to_noise']:.3g}",
            release["sampler"],
        ]
        for release in data["releases"]
    ]
    headings = {"question": "left", "numbers": "right", "sensitivity": "right", "noise": "right"}
    headings |= {"multiple": "right", "signal": "right", "sampler": "left"}
    title = f"ε = {plan.budget.epsilon:g}, δ = {plan.budget.delta:g}, {plan.budget.adjacency.value}"
    OUT.print(table(title, headings, rows))
    OUT.print(
        "noise: standard deviation of each number; multiple: noise / sensitivity; "
        "signal: norm of the sum / norm of its noise, at most."
    )
    if records is not None:
        OUT.print(
            f"About {data['seconds_at_the_gate']:.0f} s and {data['megabytes_at_the_gate']:.0f} MB at the gate for "
            f"{records:,} records; fitting comes on top and costs no privacy."
        )
