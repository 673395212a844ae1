"""How a plan is printed for people: queries, steps, or tables that are chosen on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisegate.cli.console import OUT, table
from noisegate.privacy.events import used

if TYPE_CHECKING:
    from noisegate.privacy.plan import PricedPlan


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
