"""Where the noise would drown all pairs, single columns are measured again; and releases of before are read as then."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from noisegate.gate.gate import Gate
from noisegate.methods.pairwise import Pairwise
from noisegate.privacy.plan import Budget
from noisegate.schema import Categorical, Continuous, Integer, Schema
from noisegate.tables.design import COUNTS, PAIRS, SINGLES

NUMBERS = tuple(Continuous(name=name, lower=0.0, upper=1.0) for name in "xyz")
AGE = Integer(name="age", lower=0, upper=40, missing=True)
LABELS = {"two classes": tuple("ab"), "many classes": tuple("abcdefgh")}


def schema(label):
    return Schema((*NUMBERS, AGE, Categorical(name="k", levels=LABELS[label])), label="k")


def frame(rows, label, seed=0):
    random = np.random.default_rng(seed)
    columns = {column.name: random.beta(2, 8, rows) for column in NUMBERS}
    age = pd.array(random.integers(20, 40, rows), dtype="Int64")
    return pd.DataFrame({**columns, "age": age, "k": random.choice(LABELS[label], rows)})


def measured(method, label, rows, epsilon):
    """The release, its design, and the columns of the tables that its last query measured."""
    release = method.query(Gate(frame(rows, label), schema=schema(label), epsilon=epsilon))
    design = method.design(schema(label), epsilon)
    return release, design, design.final(release.values, release.noise_std)[PAIRS].tables


def kinds(tables, label):
    """How many of the columns of tables are no label, where its classes are told apart anyway; else how many are."""
    return {len(set(table) - {4}) if label == "two classes" else len(table) for table in tables}


@pytest.mark.parametrize("label", LABELS)
def test_pairs_are_measured_where_they_stand_out_and_single_columns_where_they_drown(label):
    method = Pairwise()
    *_, many = measured(method, label, 100_000, 10.0)
    assert kinds(many, label) == {2}
    release, design, few = measured(method, label, 100, 0.05)
    # Numeric columns on the coarse cells of their histograms.
    assert few == ((0,), (1,), (2,), (3,), *(((4,),) if label == "many classes" else ()))
    bins, tables = design.read(release)
    # What was measured on other cells is no table of the model's cells.
    sizes = [*(one.size for one in bins), len(LABELS[label])]
    assert all(table.counts.shape == tuple(sizes[column] for column in table.columns) for table in tables)


@pytest.mark.parametrize("settings", [{"pairs": "all"}, {"pairs": (("x", "y"),)}, {"triples": (("x", "y", "z"),)}])
def test_pairs_that_were_asked_for_are_measured_whatever_the_noise(settings):
    *_, tables = measured(Pairwise(**settings), "two classes", 100, 0.05)
    assert all(len(set(table) - {4}) >= 2 for table in tables)


@pytest.mark.parametrize("rows", [100, 5000])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 3.0])
def test_what_is_measured_in_place_of_pairs_is_no_more_than_was_planned(rows, epsilon):
    for label in LABELS:
        method = Pairwise()
        plan = method.plan(schema(label), Budget(epsilon=epsilon))
        release, _, tables = measured(method, label, rows, epsilon)
        assert len(release.values[PAIRS]) <= plan.release(PAIRS).query.dim
        # A forecast of time: single columns come beside pairs, on cells that were planned.
        assert len(tables) <= plan.release(PAIRS).query.tables + 5


def asked(version, monkeypatch, rows, epsilon):
    """A release by the rules of an earlier version, and its design; the first said nothing of rules."""
    method, label, design = Pairwise(), "two classes", Pairwise.design
    with monkeypatch.context() as patch:
        patch.setattr(Pairwise, "design", lambda self, schema, epsilon: design(self, schema, epsilon, version=version))
        then = method.plan(schema(label), Budget(epsilon=epsilon))
    release = method.query(Gate(frame(rows, label), schema=schema(label), epsilon=epsilon), then)
    public = {name: value for name, value in release.certificate.public.items() if name != "design"}
    public |= {"design": version} if version > 1 else {}
    return replace(release, certificate=replace(release.certificate, public=public)), then.design


def test_a_release_of_an_earlier_version_is_read_by_its_rules(monkeypatch):
    method = Pairwise()
    release, then = asked(1, monkeypatch, 400, 0.1)
    bins, tables = then.read(release)
    # Of all pairs, although they drown.
    assert len(release.values[PAIRS]) == sum(t.counts.size for t in tables if len(t.columns) == 3)
    assert method.fitting(release).tables.sizes == tuple(one.size for one in bins)
    assert [name for name in (COUNTS, SINGLES, PAIRS) if name in release.values] == [COUNTS, SINGLES, PAIRS]


def test_a_release_of_the_version_that_gave_pairs_more_of_the_budget_is_read_by_its_rules(monkeypatch):
    release, then = asked(5, monkeypatch, 3000, 1.0)
    now = Pairwise().design(schema("two classes"), 1.0)
    assert kinds(then.final(release.values, release.noise_std)[PAIRS].tables, "two classes") == {2}
    assert kinds(now.final(release.values, release.noise_std)[PAIRS].tables, "two classes") == {1, 2}
    bins, _ = then.read(release)
    assert Pairwise().fitting(release).tables.sizes == tuple(one.size for one in bins)
