"""How a plan is printed for people: `show_plan`.

There are three kinds of plan, told by the fields of their description as JSON:

- sums over all records, each with its noise (``releases``);
- steps of a training, each a noisy sum over a sample (``steps``), maybe with further
  ``releases``;
- a mechanism that chooses tables of columns on its way (``rho``).

By default a plan is one line; with --details it is a table, as this one of sums::

    ε = 1, δ = 1e-05, add-remove
    query       values  sensitivity  noise  multiplier  signal
    ──────────────────────────────────────────────────────────
    fine        73 x 1        1.001  16.78       16.77    20.9
    coarse      19 x 1        1.001  16.78       16.77      41
    counts       2 x 1        1.001  37.53       37.49    56.5
    one-way   ≤ 78 x 1        1.001  8.392       8.384    40.5
    pairs    ≤ 216 x 1        1.001  4.486       4.481    45.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noisegate.app.cli.console import OUT, table
from noisegate.privacy.events import describe_unit

if TYPE_CHECKING:
    from noisegate.privacy.plan import Plan


@dataclass(frozen=True)
class _VectorNames:
    """What messages call the vectors that a step of a training adds up."""

    plural: str
    singular: str


_VECTOR_NAMES = {
    "records": _VectorNames("gradients", "gradient of a record"),
    "samples": _VectorNames("vectors, each of a whole sample", "vector of a sample"),
    "shards": _VectorNames("answers of teachers", "answer of a teacher"),
}
"""Names by the field ``vectors_of`` of a plan's description; it is absent for records.
"""

_MAX_NOISE_OVER_SIGNAL = 0.5
"""Noise of all steps over what teachers answer, from which on generators of images
learn next to nothing. On simulated digits DataLens' labels were right for 0.36, 0.22
and 0.10 of the images at a ratio of 0.11, 0.33 and 0.84; by chance it is 0.10."""


def show_plan(plan: Plan, records: int | None, *, details: bool = False) -> None:
    """Prints a plan for people.

    Args:
        plan: The calibrated plan.
        records: Public number of records, for forecasts of time and memory; None if it
            is not known.
        details: Whether to list each query, or each figure of a training, instead of
            one line.
    """
    description = plan.describe(records)
    if "rho" in description:
        _show_marginals(description)
        return
    budget = plan.budget
    title = f"ε = {budget.epsilon:g}, δ = {budget.delta:g}, {budget.adjacency.value}"
    if budget.contributions is not None:
        title += f", privacy unit: {describe_unit(budget.unit, budget.contributions)}"
    is_training = description.get("steps") is not None
    if not details:
        OUT.print(f"{title}: {_summary(description)}.", soft_wrap=True)
    elif not is_training:
        _show_queries(title, description["releases"])
    if is_training:
        _show_training(title, description, details=details)
    elif records is not None:
        OUT.print(
            f"About {description['seconds_at_the_gate']:.0f} s and "
            f"{description['megabytes_at_the_gate']:.0f} MB at the gate for "
            f"{records:,} records; fitting takes additional time and costs no privacy."
        )


def _summary(description: dict[str, Any]) -> str:
    """Returns what a plan releases, in a few words.

    As in "5 queries, 388 noisy values at most", or of a training "600 noisy sums of
    gradients".

    Args:
        description: The plan as a JSON object, from `Plan.describe`; so below.
    """
    parts = []
    step_count = description.get("steps")
    if step_count is not None:
        vectors = _vector_names(description).plural
        parts.append(f"{step_count:,} noisy sums of {vectors}")
    queries = description["releases"]
    if queries:
        value_count = sum(query["dim"] * query["columns"] for query in queries)
        parts.append(f"{len(queries)} queries, {value_count:,} noisy values at most")
    return ", ".join(parts)


def _show_queries(title: str, releases: list[dict[str, Any]]) -> None:
    """Prints a table of queries, each with its sensitivity and noise.

    The sampler of the noise is a column if queries differ in it, else in the legend.

    Args:
        title: Of the table.
        releases: The queries as JSON objects, one or more.
    """
    samplers = list(dict.fromkeys(release["sampler"] for release in releases))
    lists_samplers = len(samplers) > 1
    headings = {
        "query": "left",
        "values": "right",
        "sensitivity": "right",
        "noise": "right",
        "multiplier": "right",
        "signal": "right",
    }
    if lists_samplers:
        headings["sampler"] = "left"
    rows = []
    for release in releases:
        row = _query_row(release)
        if lists_samplers:
            row.append(release["sampler"])
        rows.append(row)
    OUT.print(table(title, headings, rows))
    legend = (
        "noise: standard deviation of each value; multiplier: noise / sensitivity; "
        "signal: norm of the sum / norm of its noise, at most."
    )
    if not lists_samplers:
        legend += f" Sampler: {samplers[0]}."
    OUT.print(legend)


def _query_row(release: dict[str, Any]) -> list[str]:
    """Returns the cells of one query, without its sampler.

    The size is ``dim x columns``: 464 x 2 is a vector of 464 numbers for each of two
    labels. It is an upper bound if the query depends on earlier answers.

    Args:
        release: The query as a JSON object. Its numbers are in units of the answer.
    """
    size = f"{release['dim']} x {release['columns']}"
    if release["adaptive"]:
        size = f"≤ {size}"
    signal = release["signal_to_noise"]
    return [
        release["name"],
        size,
        f"{release['sensitivity']:.4g}",
        f"{release['noise_std']:.4g}",
        f"{release['noise_multiplier']:.4g}",
        "-" if signal is None else f"{signal:.3g}",
    ]


def _show_training(title: str, description: dict[str, Any], *, details: bool) -> None:
    """Prints what a training adds up in its steps, and what has to be known of it.

    Args:
        title: The budget, in words.
        description: The plan as a JSON object with ``steps``.
        details: Whether to print a table of figures.
    """
    has_teachers = description.get("vectors_of") == "shards"
    if details:
        headings = {"training": "left", "": "right", "what it is": "left"}
        OUT.print(table(title, headings, _training_rows(description)))
        if description["releases"]:
            _show_queries("Further queries, within the same ε", description["releases"])
    if has_teachers:
        # Noise grows with the root of the number of steps, answers that agree with the
        # number.
        noise_norm = description["noise_norm_over_clipping_norm"]
        noise_over_signal = noise_norm / math.sqrt(description["steps"])
        if noise_over_signal > _MAX_NOISE_OVER_SIGNAL:
            OUT.print(
                "The noise exceeds the teachers' signal: if all agreed in every "
                "step, the noise of all steps together would be "
                f"{noise_over_signal:.2g} times their sum. Use more teachers, "
                "fewer values or a larger epsilon."
            )
    elif description["records_a_step"] is None:
        OUT.print(
            "A fit needs --records: sums are divided by the expected number of records "
            "of a step."
        )
    is_resumable = not description["releases"] and not has_teachers
    resumption = "can be resumed" if is_resumable else "cannot be resumed"
    OUT.print(
        "Every step uses the records, which are read once and kept in memory. An "
        f"interrupted training {resumption}."
    )


def _training_rows(description: dict[str, Any]) -> list[list[str]]:
    """Returns the figures of a training: the name, value and meaning of each.

    As of DP-GAN::

        steps                600  noisy sums of gradients, one after the other
        sampling rate       0.05  probability that a step's sample includes a record
        records a step       150  expected; how many they are stays private
        clipping norm          1  most that the gradient of a record may have
        values            17,539  in the gradient of a record
        noise multiplier   4.692  noise on each value of a sum / sensitivity
        noise / mean        4.14  norms, of the mean of a step's gradients, at least
    """
    names = _vector_names(description)
    if description.get("vectors_of") == "shards":
        sampled = "that a step queries a teacher"
    else:
        sampled = "that a step's sample includes a record"
    rows = [
        [
            "steps",
            f"{description['steps']:,}",
            f"noisy sums of {names.plural}, one after the other",
        ],
        ["sampling rate", f"{description['rate']:.4g}", f"probability {sampled}"],
    ]
    shard_count = description.get("shards", 1)
    if shard_count > 1:
        rows.append(["shards", f"{shard_count:,}", "disjoint parts of the records"])
    expected_records = description["records_a_step"]
    if expected_records is not None:
        rows.append(
            [
                "records a step",
                f"{expected_records:,.0f}",
                "expected; the number stays private",
            ]
        )
    rows += [
        [
            "clipping norm",
            f"{description['clipping_norm']:.4g}",
            f"most that the {names.singular} may have",
        ],
        ["values", f"{description['parameters']:,}", f"in the {names.singular}"],
        [
            "noise multiplier",
            f"{description['noise_multiplier']:.4g}",
            "noise on each value of a sum / sensitivity",
        ],
    ]
    noise_over_mean = description["noise_norm_over_clipping_norm"]
    if noise_over_mean is not None:
        rows.append(
            [
                "noise / mean",
                f"{noise_over_mean:.3g}",
                f"norms, of the mean of a step's {names.plural}, at least",
            ]
        )
    return rows


def _vector_names(description: dict[str, Any]) -> _VectorNames:
    """Returns the names of the vectors that the steps of a training add up."""
    return _VECTOR_NAMES[description.get("vectors_of", "records")]


def _show_marginals(description: dict[str, Any]) -> None:
    """Prints the plan of a mechanism that chooses tables of columns on its way."""
    total_megabytes = description["megabytes_at_the_gate"]
    total = "" if total_megabytes is None else f": about {total_megabytes:.0f} MB"
    cell_counts = ", ".join(map(str, description["cells"]))
    OUT.print(
        f"ε = {description['epsilon']:g}, δ = {description['delta']:g}, "
        f"{description['adjacency']}: {description['mechanism']} spends rho = "
        f"{description['rho']:.4g} (zCDP) on contingency tables, which it chooses "
        f"adaptively. The columns have {cell_counts} cells.\nIt holds all records "
        f"in memory, {description['bytes_per_record_at_the_gate']} bytes each, "
        f"beside {description['megabytes_of_tables_at_the_gate']:.0f} MB of exact "
        f"tables{total}. After each choice a model is fitted, which may take "
        "minutes in all."
    )
