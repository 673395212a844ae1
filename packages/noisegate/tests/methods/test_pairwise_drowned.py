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
from noisegate.tables.released import COARSE, HISTOGRAMS

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


def test_between_them_single_columns_have_a_part_of_the_budget_that_grows_with_the_noise():
    label = "two classes"
    design = Pairwise().design(schema(label), 1.0)
    parts = []
    for rows in (1500, 6000, 50_000):
        release = Pairwise().query(Gate(frame(rows, label), schema=schema(label), epsilon=1.0))
        asked = design.final(release.values, release.noise_std)[PAIRS]
        assert asked.norm == pytest.approx(1, abs=1e-12)
        single = [len(set(table) - {4}) == 1 for table in asked.tables]
        parts.append(sum(weight**2 for weight, one in zip(asked.weights, single, strict=True) if one))
        _, tables = design.read(release)
        # Each with the noise that its part of the budget leaves.
        read = tables[-len(asked.tables) :]
        stds = [release.noise_std[PAIRS] / weight for weight in asked.weights]
        assert [table.noise_std for table in read] == pytest.approx(stds)
    assert 1 > parts[0] > parts[1] > parts[2] >= 0


def test_with_a_label_of_many_classes_its_pairs_are_measured_longer_than_others():
    assert Pairwise().plan(schema("many classes"), Budget(epsilon=1.0)).design.yielding
    found = []
    for rows in (1, 400, 30_000):
        *_, tables = measured(Pairwise(), "many classes", rows, 1.0)
        found.append({table for table in tables if len(table) == 2})
    star = {(column, 4) for column in range(4)}
    assert found[0] == set() and found[1] == star and found[2] > star


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


def test_histograms_that_are_measured_again_are_known_better():
    label, errors = "two classes", {"first": [], "both": []}
    for seed in range(5):
        data = frame(2000, label, seed)
        method = Pairwise()
        release = method.query(Gate(data, schema=schema(label), epsilon=0.1))
        design = method.design(schema(label), 0.1)
        both = design.read_histograms(release)
        blind = {name: value for name, value in release.values.items() if name in (HISTOGRAMS, COARSE)}
        first = design.first_histograms(blind, release.noise_std)
        exact = np.histogram(data["x"], bins=32, range=(0, 1))[0] / len(data)
        edges = np.asarray([0.0, *design.fine[0].cuts])
        for name, found in (("first", first), ("both", both)):
            masses = found[0].masses
            coarse = np.bincount(np.minimum((edges * 32).astype(int), 31), masses, 32) / max(masses.sum(), 1e-9)
            errors[name].append(np.abs(coarse - exact).sum() / 2)
    assert np.mean(errors["both"]) < 0.8 * np.mean(errors["first"])


def earlier(release):
    """The release as an earlier version wrote it: it says nothing of rules."""
    public = {name: value for name, value in release.certificate.public.items() if name != "design"}
    return replace(release, certificate=replace(release.certificate, public=public))


@pytest.mark.parametrize("rows", [100, 5000])
def test_a_release_says_by_which_rules_it_is_read(rows):
    method, label = Pairwise(), "two classes"
    release, design, _ = measured(method, label, rows, 0.3)
    assert release.certificate.public["design"] == 2
    assert method.fitting(release).tables.sizes == tuple(
        one.size for one in design.bins(release.values, release.noise_std)
    )


def test_a_release_of_an_earlier_version_is_read_by_its_rules(monkeypatch):
    method, label = Pairwise(), "two classes"
    now = method.plan(schema(label), Budget(epsilon=0.1))
    then = replace(now, design=method.design(schema(label), 0.1, version=1))
    release = earlier(method.query(Gate(frame(400, label), schema=schema(label), epsilon=0.1), then))
    bins, tables = then.design.read(release)
    # Of all pairs, although they drown.
    assert len(release.values[PAIRS]) == sum(t.counts.size for t in tables if len(t.columns) == 3)
    assert method.fitting(release).tables.sizes == tuple(one.size for one in bins)
    assert [name for name in (COUNTS, SINGLES, PAIRS) if name in release.values] == [COUNTS, SINGLES, PAIRS]
