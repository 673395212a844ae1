"""`noisegate plan --want` and `--analyses`: how exact answers will be, and at what ε.

An answer is as exact as its confidence interval is narrow: its half width is how far it
reaches to either side of the estimate. It is predicted by trial: records that stand in
for the private ones are released at an ε and answered from, as in `app.analyses`. They
are public ones, or made up by the schema.

- `show_smallest_epsilon` finds the smallest ε at which all answers are as exact as
  they are wanted.
- `predict_widths` tells how exact the answers of given analyses are at one ε.

Both print a table, as this one of ``--want "mean(age) by job ±5 %"``, of ages from 18
to 90::

    half widths at epsilon = 1.4
    answer                 at most  promised
    ──────────────────────────────────────────────
    mean(age) by job ±5 %      3.6      3.35  met
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noisegate.app.cli.console import OUT, print_json, say, show_progress, table
from noisegate.app.cli.options import PlanOptions
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.app.analyses import Met, Price
    from noisegate.schema import EncodedTable, Schema

_MAX_STAND_INS = 2_000_000
"""Records that stand in for the private ones at most: they are held in memory.

More are refused and not cut off, since intervals get narrower with the records."""


def show_smallest_epsilon(
    wants: list[str],
    stand_in: EncodedTable | None,
    schema: Any,
    options: PlanOptions,
    *,
    as_json: bool,
) -> None:
    """Prints the smallest ε at which answers are as exact as they are wanted.

    The ε tried are `EPSILONS` in `app.analyses`, from 0.1 to 10. `price` searches them
    by bisection, once for each weight of second moments in `SHARES`, or for the one of
    ``--set moments_share``. Nothing private is read and nothing is spent.

    Example, of ``--want "mean(age) by job ±5 %" --records 1000``: the table at the top
    of this module, and below it::

        epsilon = 1.4 is the least of those tried that do:
          noisegate fit --epsilon 1.4 --method pairwise --set moments_share=0.43

    With no such ε the table is that of the largest one, and the line says so; as JSON,
    "epsilon" is null then and "tried" the largest. In neither case is it an error.

    Args:
        wants: Values of --want, such as ``mean(wage) by sex ±2 % at 95 %``.
        stand_in: Public records; None for made-up ones.
        schema: A `Schema`, or a `LinkedSchema`, which is refused.
        options: Of the verb; the number of records is among them.
        as_json: Whether to print JSON for programs instead.

    Raises:
        OptionError: if an answer cannot be tried, or another option contradicts.
    """
    from noisegate.app.analyses import SHARES, price, read_want

    # All is refused before the first trial, since trials take minutes. What is found
    # is a command without further settings, so others would not be those of the fit.
    settings = options.request.settings
    if set(settings) - {"moments_share"}:
        raise OptionError(
            "--want accepts only --set moments_share, and no --analyses; leave out "
            "the others."
        )
    records = _stand_in_count("--want", schema, options)
    shares: Sequence[float] = SHARES
    if "moments_share" in settings:
        shares = (settings["moments_share"],)
    parsed_wants = [read_want(text, schema) for text in wants]
    # How many trials there will be is not known, so that notes alone change: 0 steps.
    with show_progress("Trying", None) as progress:
        smallest = price(
            parsed_wants,
            schema,
            records,
            stand_in=stand_in,
            shares=shares,
            progress=lambda note: progress(0, note),
            delta=options.request.delta,
            adjacency=options.request.adjacency,
        )
    if as_json:
        epsilon = smallest.epsilon if smallest.reached else None
        print_json({"epsilon": epsilon, **smallest.to_json()})
        return
    _show_widths(smallest.epsilon, smallest.met)
    _show_command(smallest)
    say(_describe_stand_in(stand_in))


def _show_command(smallest: Price) -> None:
    """Prints the smallest ε, and the fit that spends it.

    "The least that was tried" warns that a still smaller one may do.
    """
    from noisegate.app.analyses import EPSILONS

    if not smallest.reached:
        OUT.print(f"No epsilon up to {EPSILONS[-1]:g} suffices.")
        return
    if smallest.epsilon == EPSILONS[0]:
        qualification = "the smallest value tried"
    else:
        qualification = "the smallest value tried that suffices"
    OUT.print(
        f"epsilon = {smallest.epsilon:g} is {qualification}:\n"
        f"  noisegate fit --epsilon {smallest.epsilon:g} --method pairwise "
        f"--set moments_share={smallest.moments_share:g}",
        highlight=False,
    )


def predict_widths(
    stand_in: EncodedTable | None,
    schema: Any,
    options: PlanOptions,
    epsilon: float,
    *,
    as_json: bool,
) -> list[dict[str, Any]]:
    """Predicts how exact the answers of --analyses will be.

    Args:
        stand_in: Public records; None for made-up ones.
        schema: A `Schema`, or a `LinkedSchema`, which is refused.
        options: Of the verb; the analyses and the number of records are among them.
        epsilon: ε of the guarantee.
        as_json: Whether JSON is printed in the end, so that no table is printed here.

    Returns:
        For each analysis a JSON object with its promised half width.

    Raises:
        OptionError: if an answer cannot be tried, or another option contradicts.
    """
    from noisegate.app.analyses import Price, expected, read_analyses

    records = _stand_in_count("--analyses", schema, options)
    wants = read_analyses(options.setting_options.analyses or "")
    with show_progress("Trying", None):
        predictions = expected(
            wants,
            schema,
            records,
            options.request.settings,
            stand_in=stand_in,
            epsilon=epsilon,
            delta=options.request.delta,
            adjacency=options.request.adjacency,
        )
    if not as_json:
        _show_widths(epsilon, predictions)
        say(_describe_stand_in(stand_in))
    # A cost only for its JSON of each answer; its other fields are not used.
    priced = Price(epsilon=epsilon, moments_share=0.0, met=predictions)
    widths: list[dict[str, Any]] = priced.to_json()["wants"]
    return widths


def _stand_in_count(option: str, schema: Schema, options: PlanOptions) -> int:
    """Returns how many records stand in for the private ones: --records.

    Args:
        option: The option that asks for trials, for messages.
        schema: The schema.
        options: Of the verb.

    Raises:
        OptionError: if such records, or such a method, cannot be tried.
    """
    from noisegate.methods.registry import AUTO
    from noisegate.schema.schema import is_linked

    is_one_table = not is_linked(schema) and schema.images is None
    if not is_one_table or options.request.method not in (AUTO, "pairwise"):
        raise OptionError(
            f"{option} applies to one table with method 'pairwise' only; leave it out."
        )
    if options.request.unit_column or options.request.contributions:
        raise OptionError(
            f"{option} takes each record as a privacy unit; leave out "
            "--unit-column and --contributions."
        )
    if options.request.records is None or options.request.records > _MAX_STAND_INS:
        raise OptionError(
            f"{option} needs --records, a public estimate of the number of "
            f"records, at most {_MAX_STAND_INS:,}."
        )
    return options.request.records


def _show_widths(epsilon: float, predictions: Sequence[Met]) -> None:
    """Prints a table of answers: the half width that is wanted, and the promised one.

    Args:
        epsilon: The ε at which they were tried.
        predictions: What comes of each answer.
    """
    rows = [
        [
            prediction.want.text,
            _half_width_cell(prediction.want.most),
            _half_width_cell(prediction.half),
            _remark(prediction),
        ]
        for prediction in predictions
    ]
    headings = {"answer": "left", "at most": "right", "promised": "right", "": "left"}
    OUT.print(table(f"half widths at epsilon = {epsilon:g}", headings, rows))


def _half_width_cell(half_width: float | None) -> str:
    """Returns a half width as text; a dash for any width, or for no answer."""
    return "-" if half_width is None else f"{half_width:.3g}"


def _remark(prediction: Met) -> str:
    """Returns whether an answer is as exact as it is wanted, and what would make it so.

    One of "met"; "" if it may have any width; "no answer", also where no number of
    records would do; or "with about 4,000 records", at this ε.
    """
    if prediction.met:
        return "" if prediction.want.most is None else "met"
    if prediction.records is None:
        return "no answer"
    return f"with about {prediction.records:,} records"


def _describe_stand_in(stand_in: EncodedTable | None) -> str:
    """Returns which records the answers were tried on, and what that means."""
    if stand_in is None:
        records = (
            "simulated records, with numbers uniform between their bounds and "
            "equally common levels"
        )
    else:
        records = "public records"
    return (
        f"Estimated from {records}. If the private records vary more, intervals are "
        "wider."
    )
