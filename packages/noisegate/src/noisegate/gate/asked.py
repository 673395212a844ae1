"""What a gate is asked for, checked before any record is read: a guarantee, and plans within it."""

from __future__ import annotations

from typing import Any

from noisegate.errors import OptionError
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import RECORD, Adjacency, linked_unit, unit_text
from noisegate.privacy.plan import Budget
from noisegate.schema.kinds import is_linked, is_schema


def asked_budget(
    schema: Any,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str,
    *,
    records: int | None,
    unit: str,
    unit_column: str | None,
    contributions: int | None,
    on_error: str,
    discovery: Certificate | None,
) -> Budget:
    """Returns the budget with the words for its privacy unit; the options are those of `Gate`.

    Raises:
        OptionError: if there is no schema, or options do not go together.
    """
    if not is_schema(schema):
        raise OptionError(
            "schema=None: a schema is required. Bounds, levels and missing-ness read off private data would leak "
            "it; write down what is publicly known (`noisegate schema init` drafts it from a public sample)."
        )
    relation = Adjacency.parse(adjacency)
    if is_linked(schema):
        _check_linked(relation, unit=unit, unit_column=unit_column, on_error=on_error, discovery=discovery)
        words = linked_unit(schema.names)
    else:
        words = unit_text(unit, unit_column, contributions)
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=relation, unit=words, contributions=contributions)
    check_public_records(records, relation)
    if relation is Adjacency.REPLACE_ONE and on_error == "skip":
        raise OptionError(
            "on_error='skip': adjacency='replace-one' takes the number of records as public, and that of the "
            "images that can be used is not; use adjacency='add-remove'."
        )
    return budget


def check_plan(plan: Any, kind: type[Any], of: type[Any] | None, budget: Budget) -> None:
    """Refuses a plan, or steps of it, of another kind than the query takes, or calibrated for another budget."""
    if not isinstance(plan, kind) or (of is not None and not isinstance(plan.plan, of)):
        wanted = kind.__name__ + (f" of a {of.__name__}" if of else "")
        raise OptionError(f"plan={type(plan).__name__}: this query takes a {wanted}; call plan.calibrate(budget).")
    if plan.budget != budget:
        raise OptionError(f"the plan is calibrated for {plan.budget}, the gate has {budget}; use gate.budget.")


def _check_linked(adjacency: Adjacency, **given: Any) -> None:
    """Refuses what linked tables have no use for: their schema says what the unit is."""
    if adjacency is Adjacency.REPLACE_ONE:
        raise OptionError(
            "adjacency='replace-one' takes the number of records as public, and how many belong to a unit is not; with "
            "linked tables use adjacency='add-remove'."
        )
    for name, value in given.items():
        if value not in (None, RECORD, "refuse"):
            raise OptionError(f"{name}={value!r}: linked tables take none; the unit is a record of their first table.")


def check_public_records(records: int | None, adjacency: Adjacency) -> None:
    """Refuses a number of records that is no positive whole number, or missing where it must be public."""
    if records is not None and (isinstance(records, bool) or not isinstance(records, int) or records < 1):
        raise OptionError(f"records={records!r} must be a positive whole number.")
    if adjacency is Adjacency.REPLACE_ONE and records is None:
        raise OptionError("adjacency='replace-one' takes the number of records as public: give records=N.")
