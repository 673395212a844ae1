"""Constraints that no record keeps to: found exactly, against counting out every record of small schemas."""

import itertools
import random
from dataclasses import replace

import pytest
from tests.shared.columns import boolean, categorical, continuous, integer
from tests.shared.patience import at_most_calls

from noisegate.errors import SchemaError
from noisegate.schema import (
    Comparison,
    Decimal,
    Impossible,
    Schema,
)
from noisegate.schema.satisfiable import find_contradiction, satisfied_fraction

COLUMNS = (
    integer("a", 0, 3, missing=True),
    integer("b", 1, 4),
    integer("c", 0, 2),
    categorical("k", "xy", missing=True),
    boolean("t"),
)
VALUES = {
    "a": [None, 0, 1, 2, 3],
    "b": [1, 2, 3, 4],
    "c": [0, 1, 2],
    "k": [None, "x", "y"],
    "t": [False, True],
}
# Grids with gaps, and atoms outside the bounds, which no interval holds and no rule compares.
STEPPED = (
    integer("a", 0, 6, step=2, missing=True, atoms=[-7]),
    Decimal(name="b", lower=0.5, upper=2.5, step=0.5),
    integer("c", 0, 2, atoms=[-1, 9]),
    *COLUMNS[3:],
)
STEPPED_VALUES = VALUES | {
    "a": [None, -7, 0, 2, 4, 6],
    "b": [0.5, 1, 1.5, 2, 2.5],
    "c": [-1, 0, 1, 2, 9],
}
SENTINELS = (-7, -1, 9)
HOLDS = {
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}


def keeps(record, constraint):
    if isinstance(constraint, Comparison):
        left = record[constraint.left]
        right = record[constraint.right]
        free = (None, *SENTINELS)
        return left in free or right in free or HOLDS[constraint.relation](left, right)
    return not all(
        shows(record[name], value) for name, value in constraint.values.items()
    )


def shows(counts, value):
    if isinstance(value, str) and ".." in value:
        low, high = (float(end) if end else None for end in value.split(".."))
        return (
            counts not in (None, *SENTINELS)
            and (low is None or low <= counts)
            and (high is None or counts <= high)
        )
    return counts == (None if value == "" else value)


def any_record(constraints, values):
    """Says by counting out what the solver decides: of comparisons alone, whether values keep to them."""
    compared = [
        constraint for constraint in constraints if isinstance(constraint, Comparison)
    ]
    records = [
        dict(zip(values, row, strict=True))
        for row in itertools.product(*values.values())
    ]
    whole = [
        record
        for record in records
        if not {None, *SENTINELS} & {record["a"], record["b"], record["c"]}
    ]
    return any(
        all(keeps(record, constraint) for constraint in constraints)
        for record in records
    ) and any(
        all(keeps(record, constraint) for constraint in compared) for record in whole
    )


def drawn(draw, known):
    if draw.random() < 0.4:
        left, right = draw.sample("abc", 2)
        return Comparison(left=left, relation=draw.choice(list(HOLDS)), right=right)
    values = {}
    for name in draw.sample(list(known), draw.choice([1, 1, 2, 2, 3])):
        value = draw.choice(known[name])
        if name in "abc" and value not in (None, *SENTINELS) and draw.random() < 0.6:
            value = draw.choice([f"..{value}", f"{value}.."])
        values[name] = "" if value is None else value
    return Impossible(values=values)


def possible(constraint, columns):
    """A rule that contradicts the bounds by itself is refused where it is written."""
    try:
        Schema(columns, constraints=(constraint,))
    except SchemaError:
        return False
    return True


@pytest.mark.parametrize(
    ("columns", "values", "times"),
    [(COLUMNS, VALUES, 600), (STEPPED, STEPPED_VALUES, 300)],
)
def test_it_agrees_with_counting_out_every_record(columns, values, times):
    draw = random.Random(0)
    counts = {True: 0, False: 0}
    layout = Schema(columns).layout
    for _ in range(times):
        drafts = (drawn(draw, values) for _ in range(draw.randint(1, 9)))
        constraints = [
            constraint for constraint in drafts if possible(constraint, columns)
        ]
        clash = find_contradiction(constraints, layout, ("",))
        assert bool(clash) != any_record(constraints, values), constraints
        counts[bool(clash)] += 1
        for spared in clash:
            assert any_record(
                [constraint for constraint in clash if constraint is not spared], values
            ), (
                clash,
                spared,
            )
    assert min(counts.values()) > times // 6


REALS = (
    continuous("r", 0, 1),
    continuous("s", 0, 1, missing=True),
    integer("n", 0, 1),
)
CLASHES = {
    "a cycle": ["r < s", "s < r"],
    "a cycle by way of a whole number": ["r < n", "n <= s", "s <= r"],
    "two rules and a gap": ["r <= s", {"r": "..0.5"}, {"s": "0.25..1"}, {"s": ""}],
    "all that a column may say": [{"r": "0..0.5"}, {"r": "0.5..1"}],
    "all of it at once": [{"n": "0..1"}],
    "a strict rule between the ends": ["r < n", {"n": 1}],
}
HARMONIES = {
    "equal by two rules": ["r <= s", "s <= r"],
    "only where a value is missing": ["r <= s", {"r": "..0.5"}, {"s": "0.25..1"}],
    "a point is left": [{"r": "0..0.4"}, {"r": "0.5..1"}],
    "a strict rule at the upper end": ["r < n"],
}


def constraints_of(forms):
    rules = [
        dict(zip(("left", "relation", "right"), form.split(), strict=True))
        for form in forms
        if isinstance(form, str)
    ]
    return tuple(Comparison(**rule) for rule in rules) + tuple(
        Impossible(values=f) for f in forms if isinstance(f, dict)
    )


@pytest.mark.parametrize("case", CLASHES)
def test_real_numbers_that_clash(case):
    constraints = constraints_of(CLASHES[case])
    schema = Schema(REALS, constraints=constraints)
    assert set(
        map(str, find_contradiction(constraints, schema.layout, schema.missing_values))
    ) == set(map(str, constraints))
    with pytest.raises(
        SchemaError, match=r"no record keeps to the constraint.*Correct or remove one"
    ):
        Schema.loads(schema.dumps())
    assert (
        Schema.from_json(schema.to_json()) == schema
    )  # what a model holds is not asked again


@pytest.mark.parametrize("case", HARMONIES)
def test_real_numbers_that_do_not(case):
    schema = Schema(REALS, constraints=constraints_of(HARMONIES[case]))
    assert Schema.loads(schema.dumps()) == schema


def test_only_the_constraints_that_clash_are_named():
    columns = [integer(name, 0, 9) for name in ("p", "q", "r", "s")]
    rules = [
        Comparison(left=left, relation="<", right=right)
        for left, right in ("pq", "sr", "qr", "rp")
    ]
    with pytest.raises(
        SchemaError, match=r"constraints p < q; q < r; r < p: every synthetic one"
    ):
        Schema(columns, constraints=tuple(rules)).usable()


def test_a_hard_search_ends_and_refuses_nothing():
    # Ten pigeons in nine holes: no record keeps to it, and no search of this kind sees that in good time.
    holes = [str(hole) for hole in range(9)]
    columns = tuple(categorical(f"p{index}", holes) for index in range(10))
    pairs = itertools.combinations(range(10), 2)
    apart = tuple(
        Impossible(values={f"p{i}": hole, f"p{j}": hole})
        for i, j in pairs
        for hole in holes
    )
    with at_most_calls(10_000_000):
        assert Schema(columns, constraints=apart).usable()


def test_columns_whose_values_never_meet_end_the_search():
    """Whole numbers and halves raise each other by one step a round, up to bounds of a billion."""
    pair = (
        integer("a", 0, 10**9),
        Decimal(name="b", lower=0.5, upper=10**9 + 0.5, step=1.0),
    )
    rules = [
        Comparison(left=left, relation="<=", right=right)
        for left, right in (("a", "b"), ("b", "a"))
    ]
    assert find_contradiction(rules, Schema(pair).layout, ()) == ()


def test_what_is_hardly_possible_is_said():
    wide = [integer(name, 0, 10**6) for name in "pq"]
    equal = tuple(
        Comparison(left="p", relation=relation, right="q") for relation in ("<=", ">=")
    )
    assert (
        "p <= q; p >= q" in Schema(wide, constraints=equal).usable().hardly_satisfiable
    )
    assert Schema(wide, constraints=equal[:1]).hardly_satisfiable is None
    assert Schema(wide).hardly_satisfiable is None
    # A record has one of two sums, and is 0 in the other, as an atom says.
    either = [integer(name, 0, 1_000_000, atoms=[0]) for name in "pq"]
    never = [Impossible(values={"p": "1..", "q": "1.."})]
    assert Schema(either, constraints=never).hardly_satisfiable is None
    assert Schema(
        [replace(constraint, atoms=()) for constraint in either], constraints=never
    ).hardly_satisfiable


def test_the_share_of_records_that_keep_is_what_counting_out_says():
    columns = (
        integer("a", 0, 3),
        integer("b", 0, 3),
        boolean("t"),
    )
    rules = (
        Comparison(left="a", relation="<=", right="b"),
        Impossible(values={"t": True, "a": 0}),
    )
    layout = Schema(columns).layout
    # An end is the nearest of half as many positions as the numbers between the ends.
    chance = [1 / 6, 1 / 3, 1 / 3, 1 / 6]
    right = sum(
        chance[a] * chance[b] * (0.5 if a == 0 else 1)
        for a in range(4)
        for b in range(a, 4)
    )
    assert satisfied_fraction(rules, layout, ("",)) == pytest.approx(right, abs=0.01)
    assert satisfied_fraction((), layout, ("",)) == 1
