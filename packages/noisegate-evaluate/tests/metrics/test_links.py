import numpy as np
import pyarrow as pa
import pytest

from noisegate.schema import (
    Categorical,
    Comparison,
    Impossible,
    Integer,
    Ordered,
    Schema,
)
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate_evaluate.metrics.links import (
    Crossed,
    crossed_distances,
    distinct_distance,
    gap_distance,
    link_distances,
)
from noisegate_evaluate.reading import ColumnLevels, bring_together

SCHEMA = LinkedSchema(
    [
        LinkedTable(
            name="people",
            key="id",
            schema=Schema([Categorical(name="kind", levels=("a", "b"))]),
        ),
        LinkedTable(
            name="visits",
            parent="people",
            order="day",
            most=20,
            schema=Schema(
                [
                    Integer(name="day", lower=0, upper=99),
                    Categorical(name="state", levels=("x", "y")),
                ]
            ),
        ),
    ]
)
LINK = SCHEMA.links[0]
PEOPLE = 400
VISITS = 6


def made(stay=0.9, kind=True, seed=0, days=5):
    """People whose visits begin in a state that their kind decides, and stay in it with a probability."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 2, PEOPLE)
    state = kinds if kind else random.integers(0, 2, PEOPLE)
    states = [state]
    for _ in range(VISITS - 1):
        states.append(
            np.where(random.random(PEOPLE) < stay, states[-1], 1 - states[-1])
        )
    keys = np.arange(PEOPLE)
    return {
        "people": pa.table({"id": keys, "kind": np.array(["a", "b"])[kinds]}),
        "visits": pa.table(
            {
                "id": np.repeat(keys, VISITS),
                "day": np.tile(np.arange(VISITS) * days, PEOPLE),
                "state": np.array(["x", "y"])[np.stack(states, axis=1).ravel()],
            }
        ),
    }


def distances(synthetic, real):
    ours, theirs = (
        bring_together(tables, SCHEMA, "test") for tables in (synthetic, real)
    )
    return link_distances(ours, theirs, LINK, bins=10)


def test_children_that_break_a_rule_are_counted():
    rules = [
        Comparison(left="visits.day", relation=">=", right="people.since"),
        Impossible(values={"people.kind": "a", "visits.state": "y"}),
    ]
    kind = Categorical(name="kind", levels=("a", "b"))
    since = Integer(name="since", lower=10, upper=59)
    people = LinkedTable(name="people", key="id", schema=Schema([kind, since]))
    schema = LinkedSchema([people, SCHEMA.tables[1]], constraints=rules)
    tables = {
        "people": pa.table({"id": [1, 2], "kind": ["a", "b"], "since": [20, 30]}),
        "visits": pa.table(
            {
                "id": [1, 1, 2, 2, 9],
                "day": [20, 19, 30, 31, 0],
                "state": ["y", "x", "y", "x", "y"],
            }  # 9 is nobody
        ),
    }
    together = bring_together(tables, schema, "test")
    assert link_distances(together, together, schema.links[0], bins=10).broken == 2


def test_two_samples_of_one_source_are_near_in_everything():
    found = distances(made(seed=1), made(seed=2))
    assert found.child_counts.mean == 0.0
    assert (
        max(
            one.mean
            for one in (found.parent_child, found.transitions, found.distinct_values)
        )
        < 0.06
    )
    assert found.gaps.largest == 0.0
    assert [found.orphans, found.repeated_keys, found.backwards] == [0, 0, 0]


def test_transitions_see_what_single_tables_do_not():
    found = distances(made(stay=0.5, seed=1), made(stay=0.9, seed=2))
    # (stay, change) / 2 twice: (.25, .25, .25, .25) against (.45, .05, .05, .45).
    assert found.transitions.mean == pytest.approx(0.4, abs=0.05)
    assert found.transitions.largest_columns == ("state", "next state")
    # One state throughout: 2 · .5**6 against .9**5.
    states = {"state": found.distinct_values.largest}
    assert states["state"] == pytest.approx(0.9**5 - 0.5**5, abs=0.08)
    assert found.distinct_values.largest_columns == ("state",)


def test_gaps_are_compared_whatever_their_length():
    found = distances(made(days=4), made(days=5))
    assert found.gaps.largest == 1.0
    assert [found.gaps.synthetic_median, found.gaps.real_median] == pytest.approx(
        [4 / 99, 5 / 99]
    )


def test_flaws_of_the_synthetic_tables_are_counted():
    tables = made()
    keys = tables["visits"]["id"].to_numpy().copy()
    keys[:3] = -1
    turned = (
        tables["visits"]
        .set_column(0, "id", pa.array(keys))
        .take(np.arange(len(keys))[::-1])
    )
    people = pa.concat_tables([tables["people"], tables["people"].slice(0, 2)])
    found = distances({"people": people, "visits": turned}, tables)
    assert found.orphans == 3
    assert found.repeated_keys == 2
    assert found.backwards == (PEOPLE - 1) * (VISITS - 1) + 2


def test_without_children_there_is_nothing_to_compare():
    tables = made()
    none = {**tables, "visits": tables["visits"].slice(0, 0)}
    found = distances(none, tables)
    assert found.child_counts.mean == 1.0
    assert (
        found.parent_child,
        found.transitions,
        found.distinct_values,
        found.gaps,
    ) == (None,) * 4
    assert found.to_json()["transitions"] is None
    assert dict(found.lines())["gaps"] == ("–", "")


def test_crossed_columns_are_counted_together():
    same, other = (
        ColumnLevels(np.array(codes), 2) for codes in ([0, 0, 1, 1], [0, 1, 0, 1])
    )
    found = crossed_distances(
        Crossed({"a": same}, {"b": same, "c": same}),
        Crossed({"a": same}, {"b": other, "c": same}),
    )
    assert (found.mean, found.largest, found.largest_columns, found.used) == (
        0.25,
        0.5,
        ("a", "b"),
        2,
    )


def test_parents_with_one_child_say_nothing_of_distinct_values():
    column = {"a": ColumnLevels(np.array([0, 1, 2, 2]), 5)}
    several = np.array([0, 0, 3, 3])
    alone = np.array([0, 1, 2, 3])
    # Two parents with two children each: one with two values, one with one.
    assert distinct_distance(column, column, parents=(several, several)).mean == 0.0
    assert distinct_distance(column, column, parents=(several, alone)) is None


def test_gaps_of_equal_days_are_equal_however_they_were_rounded():
    tenths = np.array([0.1, 0.3 - 0.2, 0.7 - 0.6])
    assert gap_distance(tenths, np.full(3, 0.1)).largest == 0.0


def test_what_a_relation_measures_of_a_child_is_compared():
    """Entries and days are each alike, and only how long after the entry a visit is differs."""
    entered = Integer(name="entered", lower=0, upper=9)
    day = Integer(name="day", lower=0, upper=9)
    schema = LinkedSchema(
        [
            LinkedTable(name="people", key="id", schema=Schema([entered])),
            LinkedTable(name="visits", parent="people", most=1, schema=Schema([day])),
        ],
        relations=[Ordered(upper_name="visits.day", lower_name="people.entered")],
    )

    def tables(days):
        people = {"id": [0, 1, 2, 3], "entered": [0, 0, 2, 2]}
        visits = {"id": people["id"], "day": days}
        parts = {"people": pa.table(people), "visits": pa.table(visits)}
        return bring_together(parts, schema, "real")

    distances = link_distances(
        tables([2, 4, 2, 4]), tables([2, 2, 4, 4]), schema.links[0], bins=10
    )
    assert distances.broken == 0
    broken = link_distances(
        tables([2, 4, 1, 4]), tables([2, 2, 4, 4]), schema.links[0], bins=10
    )
    assert broken.broken == 1
    # One pair is entered × day, the other one entered × the difference of the two.
    assert distances.parent_child.total == 2
    assert distances.parent_child.largest == 0.5


def test_the_order_of_a_file_is_none_of_its_children():
    parents = 500
    children = 4
    keys = np.repeat(np.arange(parents), children)
    tables = {
        "people": pa.table({"id": np.arange(parents), "kind": ["a"] * parents}),
        "visits": pa.table({"id": keys, "day": np.tile(np.arange(children), parents)}),
    }
    day = Integer(name="day", lower=0, upper=9)
    visits = LinkedTable(
        name="visits", parent="people", most=children, schema=Schema([day])
    )
    schema = LinkedSchema([SCHEMA.tables[0], visits])
    rows = np.random.default_rng(0).permutation(len(keys))
    shuffled = {**tables, "visits": tables["visits"].take(pa.array(rows))}
    sides = [bring_together(each, schema, "test") for each in (shuffled, tables)]
    assert link_distances(*sides, schema.links[0], bins=10).transitions.mean < 0.08
