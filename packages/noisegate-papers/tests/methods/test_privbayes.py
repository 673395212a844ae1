"""PrivBayes: parents and the tables that are bought follow from what was released; the network is what they say."""

import math
import sys
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer
from tests.shared.noisy_tables import numbered_domain, numbered_table
from tests.shared.sums import check_tables, same_tables

from noisegate import Budget, Gate, PrivBayes
from noisegate.errors import MissingExtraError, ModelError
from noisegate.models.folder import verify_model
from noisegate.models.tables.packed_tables import pack_tables
from noisegate.privacy.release import Release, array_hashes, release_arrays
from noisegate.queries.contingency import tables_up_to
from noisegate.records import Rows
from noisegate.schema import Boolean, Categorical, Continuous, Integer, Schema
from noisegate.sources.tables.tables import TableSource
from noisegate_papers.methods.marginals import AIM, MST
from noisegate_papers.training.graphical import (
    FAMILIES,
    Family,
    conditional_tables,
    mutual_information,
    shrunk,
)

LEVELS = tuple("abc")
COLUMNS = (
    Continuous(name="x", lower=0.0, upper=1.0, missing=True),
    Integer(name="n", lower=0, upper=5),
    Categorical(name="both", levels=LEVELS),
    Categorical(name="left", levels=LEVELS),
    Categorical(name="right", levels=LEVELS),
    Boolean(name="ill"),
)
SCHEMA = Schema(COLUMNS, label="ill")
PLAIN = Schema(COLUMNS)
MANY = Schema((*COLUMNS, Integer(name="year", lower=0, upper=400)))


def people(rows=3000, seed=0):
    """Returns records in which "both" mostly follows from "left" and "right", and "n" from "x"."""
    random = np.random.default_rng(seed)
    left, right = random.integers(0, 3, (2, rows))
    both = np.where(
        random.random(rows) < 0.9, np.maximum(left, right), random.integers(0, 3, rows)
    )
    x = random.beta(2, 5, rows)
    n = np.minimum((x * 6 + random.random(rows)).astype(int), 5)
    names = np.array(LEVELS)
    return pa.table(
        {
            "x": pa.array(x, mask=random.random(rows) < 0.1),
            "n": n,
            "both": names[both],
            "left": names[left],
            "right": names[right],
            "ill": random.random(rows) < 0.2 + 0.2 * both,
            "year": random.integers(0, 401, rows),
        }
    )


def gate_of(schema, epsilon=1.0, rows=3000, **options):
    return Gate(
        people(rows).select(schema.names),
        schema=schema,
        epsilon=epsilon,
        records=rows,
        **options,
    )


@pytest.mark.parametrize(
    "schema", [SCHEMA, PLAIN, MANY], ids=["label", "plain", "many"]
)
@pytest.mark.parametrize("degree", [1, 2])
def test_a_record_moves_one_cell_of_each_family_whatever_its_parents(
    schema, degree, asked
):
    method, gate = PrivBayes(degree=degree), gate_of(schema, epsilon=50.0)
    plan = method.plan(schema, gate.budget)
    method.query(gate, plan)
    families, planned = dict(asked)[FAMILIES], plan.release(FAMILIES)
    largest = max(len(table) for table in families.tables)
    assert largest == degree + (2 if schema.label else 1), (
        "the case has families of as many parents as there may be"
    )
    batches = TableSource(people(200).select(schema.names), schema).batches()
    check_tables(Rows.concatenate(list(batches)), families, planned)


@pytest.mark.parametrize(
    "schema", [SCHEMA, PLAIN, MANY], ids=["label", "plain", "many"]
)
def test_families_follow_from_what_was_released_and_from_nothing_else(schema, asked):
    method = PrivBayes()
    release = method.query(gate_of(schema, epsilon=0.3))
    first = dict(asked)
    design = method.design(schema, 0.3)
    assert same_tables(design.chosen(release).counted, first[FAMILIES])
    # The same records with other noise make other families, so the comparison can fail.
    method.query(gate_of(schema, epsilon=0.3))
    assert not same_tables(dict(asked)[FAMILIES], first[FAMILIES])


@pytest.mark.parametrize(
    "schema", [SCHEMA, PLAIN, MANY], ids=["label", "plain", "many"]
)
@pytest.mark.parametrize(
    "settings",
    [{}, {"degree": 1}, {"most_cells": 40}, {"usefulness": 1e-6, "most_cells": 10**5}],
)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_families_are_never_larger_than_planned(schema, settings, epsilon, asked):
    method, gate = PrivBayes(**settings), gate_of(schema, epsilon=epsilon, rows=300)
    plan = method.plan(schema, gate.budget)
    method.query(gate, plan)
    families = dict(asked)[FAMILIES]
    assert families.dim <= plan.release(FAMILIES).query.dim
    assert len(families.tables) == len(schema.names) - (schema.label is not None)


def test_tables_of_other_families_are_refused():
    method = PrivBayes()
    release = method.query(gate_of(SCHEMA))
    with pytest.raises(ModelError, match="does not hold the tables"):
        method.model(
            replace(
                release,
                values={**release.values, FAMILIES: release.values[FAMILIES][1:]},
            )
        )


def test_pairs_of_a_column_and_its_parent_are_drawn_as_they_are():
    made = (
        PrivBayes()
        .fit(gate_of(PLAIN, epsilon=50.0, rows=20_000), device="cpu")
        .sample(20_000, seed=0)
    )

    def shares(table, name):
        both, other = (
            np.searchsorted(LEVELS, table[each].to_pylist()) for each in ("both", name)
        )
        return np.bincount(both * 3 + other, minlength=9).reshape(3, 3) / len(table)

    for name in ("left", "right"):
        real = shares(people(20_000), name)
        assert np.abs(shares(made, name) - real).sum() / 2 < 0.02
        assert (
            np.abs(np.outer(real.sum(axis=1), real.sum(axis=0)) - real).sum() / 2 > 0.2
        )


def test_a_column_is_drawn_with_both_of_its_parents():
    # A sum of two fair coins, where pairs say half of it, and what is left is noise of 20 on counts of 1000.
    random = np.random.default_rng(2)
    joint = np.array([[[1000.0, 0, 0], [0, 1000, 0]], [[0, 1000, 0], [0, 0, 1000]]])[
        None
    ]

    def table(columns, counts):
        return numbered_table(
            columns=columns,
            counts=counts + random.normal(scale=20.0, size=counts.shape),
            noise_std=20.0,
        )

    single = [
        table((column,), joint[0].sum(axis=tuple({0, 1, 2} - {column})))
        for column in range(3)
    ]
    pairs = [
        table(pair, joint[0].sum(axis=({0, 1, 2} - set(pair)).pop()))
        for pair in ((0, 1), (0, 2), (1, 2))
    ]
    tables = pack_tables([*single, *pairs], numbered_domain((2, 2, 3)), None)
    families = (Family(0, ()), Family(1, (0,)), Family(2, (0, 1)))
    counts = [joint.sum(axis=(2, 3)), joint.sum(axis=3), joint]
    noisy = [one + random.normal(scale=20.0, size=one.shape) for one in counts]
    first, second, third = conditional_tables(tables, families, noisy, 20.0)
    assert first == pytest.approx(0.5, abs=0.02)
    assert second == pytest.approx(0.5, abs=0.05)
    assert third == pytest.approx(joint / 1000, abs=0.1)


def test_noise_alone_leaves_columns_independent_and_every_cell_possible():
    model = PrivBayes().fit(gate_of(SCHEMA, epsilon=0.01, rows=200), device="cpu").model
    assert all(np.isfinite(factor.probabilities).all() for factor in model.factors)
    assert max(len(factor.parents) for factor in model.factors) <= 2


def test_a_plan_of_many_columns_stays_small():
    wide = Schema(
        [Categorical(name=f"c{place}", levels=LEVELS) for place in range(120)]
    )
    plan = PrivBayes().plan(wide, Budget(epsilon=1.0))
    assert plan.release(FAMILIES).query.dim <= 300_000


def test_mutual_information_is_that_of_the_shares():
    random = np.random.default_rng(0)
    counts = random.random((2, 3, 4))

    def entropy(shares):
        return -(shares * np.log(shares)).sum()

    joint = counts / counts.sum()
    known = (
        entropy(joint.sum(axis=2))
        + entropy(joint.sum(axis=1))
        - entropy(joint)
        - entropy(joint.sum(axis=(1, 2)))
    )
    assert mutual_information(counts) == pytest.approx(known)
    assert mutual_information(np.ones((1, 3, 4))) == pytest.approx(0, abs=1e-12)
    assert mutual_information(np.eye(3)[None]) == pytest.approx(math.log(3))
    assert mutual_information(np.zeros((2, 3, 4))) == 0


def test_counts_are_believed_as_far_as_they_stand_out_of_their_noise():
    random = np.random.default_rng(1)
    expected = np.full(1000, 100.0)
    noisy = expected + random.normal(scale=30.0, size=1000)
    assert np.square(shrunk(noisy, expected, 30.0) - expected).mean() < 0.01 * 30**2
    true = 100.0 * random.gamma(4, 1 / 4, 1000)
    noisy = true + random.normal(scale=30.0, size=1000)
    # The least that any linear estimate leaves: 1 / (1/30² + 1/50²).
    assert np.square(shrunk(noisy, expected, 30.0) - true).mean() == pytest.approx(
        1 / (30**-2 + 50**-2), rel=0.15
    )
    assert shrunk(true, expected, 1e-6) == pytest.approx(true, rel=1e-6)
    assert (shrunk(np.array([-5.0, 5.0]), np.ones(2), 0.1) >= 0).all()


# AIM and MST as methods: what they plan from public facts, and one run from records to a saved model.

GRAPHICAL_SCHEMA = Schema(
    columns=(
        categorical("a", "pqr"),
        integer("b", 10, 12),
        continuous("x", missing=True),
        boolean("y"),
    ),
    label="y",
)


def test_all_tables_up_to_a_degree_are_proposed_but_for_columns_of_one_cell():
    assert tables_up_to((2, 3, 1, 4, 5), degree=2) == tuple(
        combinations((0, 1, 3, 4), 2)
    )
    assert tables_up_to((2, 3), degree=3) == ((0, 1),)


def test_where_a_table_is_too_large_its_parts_are_proposed():
    tables = tables_up_to((10, 10, 10, 200), degree=3, max_cells=1000)
    assert tables == ((0, 1, 2), (3,))
    assert tables_up_to((10, 10, 10, 50), degree=3, max_cells=1000) == (
        (0, 1, 2),
        (0, 3),
        (1, 3),
        (2, 3),
    )


def test_without_the_extra_the_cure_is_named_before_anything_is_spent(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)  # makes the import fail
    with pytest.raises(
        MissingExtraError, match=r"mbi is missing.*pip install 'noisegate\[marginals\]'"
    ):
        MST().check_fit("cpu")


# One run: needs the extra, and takes a quarter of a minute.


# Few columns: OpenDP looks for its noise for a second with each, in every round.
RUN_SCHEMA = Schema(
    columns=(
        GRAPHICAL_SCHEMA.column("a"),
        GRAPHICAL_SCHEMA.column("x"),
        GRAPHICAL_SCHEMA.column("y"),
    ),
    label="y",
)
RUN = AIM(bins=6, degree=2, rounds=2, iterations=300)


def graphical_people(rows):
    random = np.random.default_rng(0)
    a = random.integers(0, 3, rows)
    x = np.where(random.random(rows) < 0.1, np.nan, (a + random.random(rows)) / 3)
    y = np.where(random.random(rows) < 0.9, a == 2, random.random(rows) < 0.5)
    return pd.DataFrame({"a": np.array(["p", "q", "r"])[a], "x": x, "y": y})


@pytest.fixture(scope="module")
def synthesizer():
    pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")
    return RUN.fit(Gate(graphical_people(2000), schema=RUN_SCHEMA, epsilon=50.0))


@pytest.mark.slow
def test_a_run_keeps_what_columns_have_to_do_with_each_other(synthesizer):
    table = synthesizer.sample(5000, seed=0).to_pandas()
    real = graphical_people(2000)
    there = pd.crosstab(real.a, real.y, normalize=True)
    here = pd.crosstab(table.a, table.y, normalize=True).reindex_like(there).fillna(0)
    assert np.abs(here - there).to_numpy().sum() / 2 < 0.06
    assert table.x.isna().mean() == pytest.approx(0.1, abs=0.03)
    assert (table.x[table.a == "r"] > 0.6).mean() > 0.8
    assert synthesizer.summary.step == RUN.iterations


@pytest.mark.slow
def test_a_model_with_values_that_no_event_paid_for_is_refused(synthesizer, tmp_path):
    release = synthesizer.release
    values = {**release.values, "more": np.ones((2, 1))}
    stds = {**release.noise_std, "more": 1.0}
    certificate = replace(
        release.certificate, hashes=array_hashes(release_arrays(values, stds))
    )
    forged = replace(
        synthesizer,
        release=Release(values=values, noise_std=stds, certificate=certificate),
    )
    with pytest.raises(ModelError, match="states other releases"):
        verify_model(forged.save(tmp_path / "model"))
