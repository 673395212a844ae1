"""What the pairwise method asks: a record moves each answer by the planned norm, whatever was released before."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal
from tests.shared.sums import check_tables, same_tables

from noisegate.answers.design import COUNTS, PAIRS, SCREEN, SINGLES
from noisegate.answers.domain import domain_of
from noisegate.answers.rounds import AnswersSoFar, Rounds
from noisegate.errors import ModelError, OptionError
from noisegate.gate.gate import Gate
from noisegate.gate.sums import Engine, LocalEngine
from noisegate.methods.pairwise import DESIGN, Pairwise
from noisegate.privacy.plan import Budget
from noisegate.schema import (
    EncodedTable,
    Schema,
)
from noisegate.sources.tables.tables import TableSource

# Columns: 0 age (bought, may be missing), 1 rate (bought), 2 kids (few values, may be missing), 3 work, 4 grade, 5 ill.
SCHEMA = Schema(
    (
        integer("age", 0, 120, missing=True),
        categorical("work", "abc", missing=True),
        continuous("rate", -1.0, 3.0),
        ordinal("grade", (1, 2)),
        integer("kids", 0, 3, missing=True),
        boolean("ill"),
    ),
    label="ill",
)
UNLABELLED = Schema(SCHEMA.columns)
CODED = Schema(
    tuple(column for column in SCHEMA.columns if not column.numeric), label="ill"
)
METHODS = {
    "default": Pairwise(),
    "few cells": Pairwise(cells=2),
    "nothing bought": Pairwise(cells=2000),
    "one-way": Pairwise(pairs="none"),
    "chosen": Pairwise(pairs="chosen"),
    "three chosen": Pairwise(pairs="chosen", most_pairs=3),
    "one chosen beside a triple": Pairwise(
        pairs="chosen", most_pairs=1, triples=(("rate", "age", "ill"),)
    ),
    "a workload": Pairwise(pairs=(("rate", "age"), ("ill", "work"), ("age", "rate"))),
    "triples": Pairwise(triples=(("age", "rate", "work"), ("ill", "grade", "kids"))),
}
NAMED = [
    (name, method)
    for name, method in METHODS.items()
    if method.triples or not isinstance(method.pairs, str)
]
CASES = [
    pytest.param(method, schema, id=f"{name}, {kind}")
    for kind, schema in (("label", SCHEMA), ("no label", UNLABELLED), ("coded", CODED))
    for name, method in METHODS.items()
    # Named columns are not all there in the table of coded columns.
    if schema is not CODED or (name, method) not in NAMED
]


def records(schema, rows=60, seed=0):
    """Encoded records, the first at the ends of what the schema allows."""
    layout = schema.layout
    random = np.random.default_rng(seed)
    numeric = random.uniform(size=(rows, len(layout.numeric)))
    codes = np.stack(
        [random.integers(0, column.size, rows) for column in layout.coded], axis=1
    )
    numeric[0] = 0.0
    numeric[1] = 1.0
    codes[0] = 0
    codes[1] = [column.size - 1 for column in layout.coded]
    for index, column in enumerate(layout.numeric):
        if column.missing:
            numeric[2::3, index] = np.nan
    return EncodedTable(numeric, codes.astype(np.int32))


def answers(features, kind, random):
    """Values that a question may come to have, (dim, 1): from nothing but noise to masses that make many cells."""
    size = (features.dim, 1)
    return {
        "noise": random.normal(scale=10, size=size),
        "full": np.full(size, 1e7),
        "steep": 1e9 * random.uniform(size=size) ** 20,
        "spikes": 1e6 * (random.uniform(size=size) < 0.05) + random.normal(size=size),
        "negative": np.full(size, -1e6),
    }[kind]


def rounds(method, schema, kind, seed=0, budget=None):
    """Returns the plan, and each question's map after earlier questions were answered in some way."""
    random = np.random.default_rng(seed)
    budget = budget or Budget(epsilon=1.0)
    plan = method.plan(schema, budget)
    design = method.design(schema, budget.epsilon)
    stds = {release.query.name: release.noise_std_natural for release in plan.releases}
    maps = dict(design.histogram_maps())
    values = {
        name: answers(feature_map, kind, random) for name, feature_map in maps.items()
    }
    if design.screens_pairs:
        maps[SCREEN] = Rounds(design, AnswersSoFar(values, stds)).screening_map
        values[SCREEN] = answers(maps[SCREEN], kind, random)
    return plan, maps | Rounds(design, AnswersSoFar(values, stds)).last_maps()


KINDS = ["noise", "full", "steep", "spikes", "negative"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("method", "schema"), CASES)
def test_every_map_is_a_planned_question_and_fits_it(method, schema, kind):
    for seed in range(3):
        plan, maps = rounds(method, schema, kind, seed)
        assert list(maps) == [release.query.name for release in plan.releases]
        for release in plan.releases:
            question = release.query
            features = maps[release.query.name]
            assert features.dim <= question.dim
            assert question.adaptive or features.dim == question.dim
            assert features.norm <= question.norm * (1 + 1e-12)
            assert question.columns == 1
            assert question.nonnegative is True
            assert len(set(features.tables)) == len(features.tables)
            # Single columns may stand beside pairs, on as many cells; of pairs and larger tables there are no more.
            wide = [
                table
                for table in features.tables
                if len(table) >= 2 + (schema.label is not None)
            ]
            assert len(wide) <= question.tables


def test_round_numbers_make_more_cells_than_were_aimed_at_and_no_more_than_were_planned():
    random = np.random.default_rng(0)
    rows = 60_000
    comb = np.where(
        random.random(rows) < 0.5,
        random.integers(1, 13, rows) / 13,
        random.random(rows),
    )
    schema = Schema([continuous(name) for name in "ab"])
    method = Pairwise(cells=24)
    plan = method.plan(schema, Budget(epsilon=10.0))
    release = method.query(
        Gate(pd.DataFrame({"a": comb, "b": comb[::-1]}), schema=schema, epsilon=10.0),
        plan,
    )
    maps = Rounds(plan.design, release).last_maps()
    assert max(bins.size for bins in maps[PAIRS].bins) > 24
    assert all(
        feature_map.dim <= plan.release(name).query.dim
        for name, feature_map in maps.items()
    )


@pytest.mark.parametrize("kind", ["noise", "steep", "spikes"])
@pytest.mark.parametrize(("method", "schema"), CASES)
def test_a_record_moves_one_cell_of_each_table_and_the_sum_by_the_bound_and_no_more(
    method, schema, kind
):
    plan, maps = rounds(method, schema, kind)
    for release in plan.releases:
        check_tables(records(schema), maps[release.query.name], release)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"pairs": [("age", "nobody")]},
            "pairs names 'nobody'.*age, rate, kids, work, grade, ill",
        ),
        ({"triples": [("age", "rate", "nobody")]}, "triples names 'nobody'"),
        ({"pairs": [("age", "age")]}, "twice"),
        ({"triples": [("age", "ill", "ill")]}, "twice"),
    ],
)
def test_columns_that_are_not_there_are_refused_by_name(settings, message):
    with pytest.raises(OptionError, match=message):
        Pairwise(**settings).plan(SCHEMA, Budget(epsilon=1.0))


# One run: what the maps follow from, and what was paid for.


class RecordingEngine(Engine):
    """The local engine; keeps the maps that were asked."""

    def __init__(self):
        self.maps = {}

    def sum(self, source, tasks, progress):
        self.maps |= {name: task.feature_map for name, task in tasks.items()}
        return LocalEngine(threads=1).sum(source, tasks, progress)


def people(rows, seed=0):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": pd.array(random.integers(20, 80, rows), dtype="Int64"),
            "work": random.choice(["a", "b", "c"], rows),
            "rate": np.clip(random.normal(size=rows), -1, 3),
            "grade": random.integers(1, 3, rows),
            "kids": pd.array(random.integers(0, 4, rows), dtype="Int64"),
            "ill": random.uniform(size=rows) < 0.3,
        }
    )
    frame.loc[random.uniform(size=rows) < 0.1, "age"] = pd.NA
    return frame


def queries_of(method, frame, **options):
    engine = RecordingEngine()
    gate = Gate(frame, schema=SCHEMA, engine=engine, **{"epsilon": 1.0, **options})
    return method.query(gate), engine.maps


def test_cells_and_pairs_follow_from_what_was_released_and_from_nothing_else():
    method = Pairwise(pairs="chosen", most_pairs=4)
    release, maps = queries_of(method, people(1000))
    design = method.design(SCHEMA, 1.0)
    expected = dict(design.histogram_maps())
    expected[SCREEN] = Rounds(design, release).screening_map
    expected |= Rounds(design, release).last_maps()
    assert list(maps) == list(expected)
    for name, features in expected.items():
        assert same_tables(maps[name], features), name
    # The same records with other noise make other cells, so the comparison can fail.
    _, others = queries_of(method, people(1000))
    assert not same_tables(maps[SINGLES], others[SINGLES])


@pytest.mark.parametrize("pairs", ["all", "chosen"])
def test_tables_are_read_with_the_noise_that_they_have(pairs):
    frame = people(3000)
    method = Pairwise(pairs=pairs, triples=(("age", "work", "grade"),))
    release, maps = queries_of(method, frame)
    (batch,) = TableSource(frame, SCHEMA).batches()
    exact = [
        counts
        for name in (COUNTS, SINGLES, PAIRS)
        for counts in maps[name].counts(maps[name](batch).sum(axis=0, dtype=np.float64))
    ]
    tables = Rounds(method.design(SCHEMA, 1.0), release).measurements().tables
    assert [table.counts.shape for table in tables] == [
        counts.shape for counts in exact
    ]
    errors = [
        (table.counts - counts) / table.noise_std
        for table, counts in zip(tables, exact, strict=True)
    ]
    for group in (
        np.concatenate([error.ravel() for error in errors]),
        errors[-1].ravel(),
    ):
        # A standard deviation of n draws is off by 1/√2n of itself: six of these.
        assert group.std() == pytest.approx(1, abs=6 / math.sqrt(2 * group.size))


# Where the noise would drown all pairs, single columns are measured again; and releases of before are read as then.

NUMBERS = tuple(continuous(name) for name in "xyz")
AGE = integer("age", 0, 40, missing=True)
LABELS = {"two classes": tuple("ab"), "many classes": tuple("abcdefgh")}


def pairwise_drowned_schema(label):
    return Schema((*NUMBERS, AGE, categorical("k", LABELS[label])), label="k")


def frame(rows, label, seed=0):
    random = np.random.default_rng(seed)
    columns = {column.name: random.beta(2, 8, rows) for column in NUMBERS}
    age = pd.array(random.integers(20, 40, rows), dtype="Int64")
    return pd.DataFrame(
        {**columns, "age": age, "k": random.choice(LABELS[label], rows)}
    )


def measured(method, label, rows, epsilon):
    """The release, its design, and the columns of the tables that its last query measured."""
    release = method.query(
        Gate(frame(rows, label), schema=pairwise_drowned_schema(label), epsilon=epsilon)
    )
    design = method.design(pairwise_drowned_schema(label), epsilon)
    return (
        release,
        design,
        Rounds(design, release).last_maps()[PAIRS].tables,
    )


def kinds(tables, label):
    """How many of the columns of tables are no label, where its classes are told apart anyway; else how many are."""
    return {
        len(set(table) - {4}) if label == "two classes" else len(table)
        for table in tables
    }


@pytest.mark.parametrize("label", LABELS)
def test_pairs_are_measured_where_they_stand_out_and_single_columns_where_they_drown(
    label,
):
    method = Pairwise()
    *_, many = measured(method, label, 100_000, 10.0)
    assert kinds(many, label) == {2}
    release, design, few = measured(method, label, 100, 0.05)
    # Numeric columns on the coarse cells of their histograms.
    assert few == (
        (0,),
        (1,),
        (2,),
        (3,),
        *(((4,),) if label == "many classes" else ()),
    )
    # What was measured on other cells is no table of the model's cells.
    rounds = Rounds(design, release)
    stated = rounds.measurements()
    assert stated.domain == domain_of(design.layout, rounds.bins)
    assert all(stated.domain.contains(table.domain) for table in stated.tables)


@pytest.mark.parametrize(
    "settings",
    [{"pairs": "all"}, {"pairs": (("x", "y"),)}, {"triples": (("x", "y", "z"),)}],
)
def test_pairs_that_were_asked_for_are_measured_whatever_the_noise(settings):
    *_, tables = measured(Pairwise(**settings), "two classes", 100, 0.05)
    assert all(len(set(table) - {4}) >= 2 for table in tables)


@pytest.mark.parametrize("rows", [100, 5000])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 3.0])
def test_what_is_measured_in_place_of_pairs_is_no_more_than_was_planned(rows, epsilon):
    for label in LABELS:
        method = Pairwise()
        plan = method.plan(pairwise_drowned_schema(label), Budget(epsilon=epsilon))
        release, _, tables = measured(method, label, rows, epsilon)
        assert len(release.values[PAIRS]) <= plan.release(PAIRS).query.dim
        # A forecast of time: single columns come beside pairs, on cells that were planned.
        assert len(tables) <= plan.release(PAIRS).query.tables + 5


def pairwise_drowned_asked(version, monkeypatch, rows, epsilon):
    """A release by the rules of an earlier version, and its design; the first said nothing of rules."""
    method = Pairwise()
    label = "two classes"
    design = Pairwise.design
    with monkeypatch.context() as patch:
        patch.setattr(
            Pairwise,
            "design",
            lambda self, schema, epsilon: design(
                self, schema, epsilon, version=version
            ),
        )
        then = method.plan(pairwise_drowned_schema(label), Budget(epsilon=epsilon))
    release = method.query(
        Gate(
            frame(rows, label), schema=pairwise_drowned_schema(label), epsilon=epsilon
        ),
        then,
    )
    public = {
        name: value
        for name, value in release.certificate.public.items()
        if name != "design"
    }
    public |= {"design": version} if version > 1 else {}
    return replace(
        release, certificate=replace(release.certificate, public=public)
    ), then.design


def test_a_release_of_an_earlier_version_is_read_by_its_rules(monkeypatch):
    method = Pairwise()
    release, then = pairwise_drowned_asked(1, monkeypatch, 400, 0.1)
    rounds = Rounds(then, release)
    bins = rounds.bins
    # Of all pairs, although they drown.
    assert len(release.values[PAIRS]) == sum(
        table.domain.size
        for table in rounds.measurements().tables
        if len(table.domain.names) == 3
    )
    assert method.fitting(release).tables.sizes == tuple(
        column_bins.size for column_bins in bins
    )
    assert [name for name in (COUNTS, SINGLES, PAIRS) if name in release.values] == [
        COUNTS,
        SINGLES,
        PAIRS,
    ]


def test_a_release_of_the_version_that_gave_pairs_more_of_the_budget_is_read_by_its_rules(
    monkeypatch,
):
    release, then = pairwise_drowned_asked(5, monkeypatch, 3000, 1.0)
    now = Pairwise().design(pairwise_drowned_schema("two classes"), 1.0)
    assert kinds(Rounds(then, release).last_maps()[PAIRS].tables, "two classes") == {2}
    assert kinds(Rounds(now, release).last_maps()[PAIRS].tables, "two classes") == {
        1,
        2,
    }
    bins = Rounds(then, release).bins
    assert Pairwise().fitting(release).tables.sizes == tuple(
        column_bins.size for column_bins in bins
    )


def test_a_release_of_rules_that_are_not_known_yet_is_refused():
    method = Pairwise()
    release = method.query(
        Gate(
            frame(400, "two classes"),
            schema=pairwise_drowned_schema("two classes"),
            epsilon=1.0,
        )
    )
    public = {**release.certificate.public, "design": DESIGN + 1}
    newer = replace(release, certificate=replace(release.certificate, public=public))
    with pytest.raises(ModelError, match="newer"):
        method.fitting(newer)
