"""A plan in words, or query by query, as `plan` and `fit` print it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from noisegate.cli.console import OUT, table
from noisegate.privacy.events import used

if TYPE_CHECKING:
    from noisegate.privacy.plan import PricedPlan


def show_plan(plan: PricedPlan, records: int | None, *, details: bool = False) -> None:
    """Prints a plan for people in a line, or with `details` query by query."""
    data, budget = plan.describe(records), plan.budget
    if "rho" in data:
        _show_marginals(data)
        return
    title = f"ε = {budget.epsilon:g}, δ = {budget.delta:g}, {budget.adjacency.value}"
    if budget.contributions is not None:
        title += f", privacy unit: {used(budget.unit, budget.contributions)}"
    queries, steps = data["releases"], data.get("steps")
    if not details:
        values = sum(query["dim"] * query["columns"] for query in queries)
        told = [] if steps is None else [f"{steps:,} noisy sums of {_VECTORS[data.get('vectors_of', 'records')][0]}"]
        told += [f"{len(queries)} queries, {values:,} noisy values at most"] if queries else []
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
            *(f"{release[name]:.4g}" for name in ("sensitivity", "noise_std", "noise_multiplier")),
            "-" if release["signal_to_noise"] is None else f"{release['signal_to_noise']:.3g}",
            *(release[name] for name in told),
        ]
        for release in releases
    ]
    numbers = dict.fromkeys(("values", "sensitivity", "noise", "multiplier", "signal"), "right")
    OUT.print(table(title, {"query": "left", **numbers, **told}, rows))
    OUT.print(
        "noise: standard deviation of each value; multiplier: noise / sensitivity; "
        "signal: norm of the sum / norm of its noise, at most." + ("" if told else f" Sampler: {samplers[0]}.")
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
        OUT.print(table(title, {"training": "left", "": "right", "what it is": "left"}, _step_rows(data)))
        if data["releases"]:
            _show_queries("Further queries, within the same ε", data["releases"])
    if of_shards:
        over_all = data["noise_norm_over_clipping_norm"] / math.sqrt(data["steps"])
        if over_all > _DROWNED:
            OUT.print(
                "The noise exceeds what the teachers say: if all agreed in every step, the noise of all steps together "
                f"would be {over_all:.2g} times their sum. Use more teachers, fewer values in an answer or a larger "
                "epsilon."
            )
    elif data["records_a_step"] is None:
        OUT.print("A fit needs --records: sums are divided by the expected number of records of a step.")
    goes_on = "cannot be resumed" if data["releases"] or of_shards else "can be resumed"
    OUT.print(
        f"Every step uses the records, which are read once and kept in memory. An interrupted training {goes_on}."
    )


def _step_rows(data: dict[str, Any]) -> list[list[str]]:
    of = data.get("vectors_of", "records")
    (vectors, vector), sampled, ratio = _VECTORS[of], data["records_a_step"], data["noise_norm_over_clipping_norm"]
    chosen = "that a step queries a teacher" if of == "shards" else "that a step's sample includes a record"
    rows = [
        ["steps", f"{data['steps']:,}", f"noisy sums of {vectors}, one after the other"],
        ["sampling rate", f"{data['rate']:.4g}", f"probability {chosen}"],
    ]
    if data.get("shards", 1) > 1:
        rows.append(["shards", f"{data['shards']:,}", "disjoint parts of the records"])
    if sampled is not None:
        rows.append(["records a step", f"{sampled:,.0f}", "expected; how many they are stays private"])
    rows += [
        ["clipping norm", f"{data['clipping_norm']:.4g}", f"most that the {vector} may have"],
        ["values", f"{data['parameters']:,}", f"in the {vector}"],
        ["noise multiplier", f"{data['noise_multiplier']:.4g}", "noise on each value of a sum / sensitivity"],
    ]
    if ratio is not None:
        rows.append(["noise / mean", f"{ratio:.3g}", f"norms, of the mean of a step's {vectors}, at least"])
    return rows


def _show_marginals(data: dict[str, Any]) -> None:
    tables, whole = data["megabytes_of_tables_at_the_gate"], data["megabytes_at_the_gate"]
    OUT.print(
        f"ε = {data['epsilon']:g}, δ = {data['delta']:g}, {data['adjacency']}: {data['mechanism']} spends rho = "
        f"{data['rho']:.4g} (zCDP) on counts of tables of columns, which it chooses on the way. The columns have "
        f"{', '.join(map(str, data['cells']))} cells.\n"
        f"It holds all records in memory, {data['bytes_per_record_at_the_gate']} bytes each, beside {tables:.0f} MB of "
        f"exact tables{'' if whole is None else f': about {whole:.0f} MB'}. After each choice a model is fitted, "
        "which may take minutes in all."
    )
