"""What a mixture expects of tables, and the gradient of its distance to them, against sums over all cells."""

from dataclasses import replace

import numpy as np
import pytest
from tests.shared.noisy_tables import numbered_domain, numbered_table

from noisegate.models.tables import distance as module
from noisegate.models.tables.distance import Components, Distance
from noisegate.models.tables.packed_tables import pack_tables

SIZES = (3, 2, 4, 2)
LABEL = 3
NOISE = {(0, 3): 3.0, (1, 3): 2.0, (0, 1, 3): 2.5, (1, 2, 3): 5.0, (0, 1, 2, 3): 4.0}
K = 5


def tables(seed=0):
    random = np.random.default_rng(seed)
    found = []
    for columns, std in NOISE.items():
        counts = random.uniform(20, 200, [SIZES[column] for column in columns])
        found.append(numbered_table(columns=columns, counts=counts, noise_std=std))
    return pack_tables(found, numbered_domain(SIZES), LABEL)


def components(seed=1):
    random = np.random.default_rng(seed)
    cells = np.concatenate(
        [random.dirichlet(np.ones(size), (2, K)) for size in SIZES[:3]], axis=2
    )
    weights = random.dirichlet(np.ones(K), 2)
    return Components(
        weights=weights.astype(np.float32),
        cells=cells.transpose(0, 2, 1).astype(np.float32),
    )


def joint(released, found, columns):
    """Expected counts of a table of some columns in each class, by the definition."""
    parts = [
        found.cells[:, released.column_slices[column]].astype(float)
        for column in columns
    ]
    records = found.weights * released.class_counts[:, None]
    letters = "abc"[: len(columns)]
    return np.einsum(
        ",".join(["yk", *(f"y{one}k" for one in letters)]) + f"->y{letters}",
        records,
        *parts,
    )


def larger(released, found):
    """The squared distance to pairs and triples, by the definition."""
    total = (
        ((joint(released, found, (0, 1, 2)) - released.triples[0].counts) / 4.0) ** 2
    ).sum()
    for (one, two), std in (((0, 1), 2.5), ((1, 2), 5.0)):
        counts = released.pair_counts[
            :, released.column_slices[one], released.column_slices[two]
        ]
        total += (((joint(released, found, (one, two)) - counts) / std) ** 2).sum()
    return total


def single(released, found):
    expected = np.einsum(
        "yk,yak->ya",
        found.weights * released.class_counts[:, None],
        found.cells.astype(float),
    )
    return (((expected - released.one_way_counts) / released.one_way_std) ** 2).sum()


@pytest.fixture(autouse=True, params=["whole", "by blocks"])
def way(request, monkeypatch):
    """All of M at once, and only the blocks of released pairs."""
    monkeypatch.setattr(
        module, "_MAX_BLOCKWISE_SHARE", 0.0 if request.param == "whole" else 2.0
    )


def test_distance_and_cells_are_those_of_the_definition():
    released, found = tables(), components()
    distance = Distance(released)
    assert distance.squared_distance(distance.expected(found)) == pytest.approx(
        larger(released, found), rel=1e-5
    )
    assert distance.n_cells == 2 * (3 * 2 + 2 * 4 + 3 * 2 * 4)


def test_tables_of_the_mixture_itself_are_at_distance_zero():
    released, found = tables(), components()
    own = {
        columns: np.moveaxis(joint(released, found, columns[:-1]), 0, -1)
        for columns in NOISE
    }
    singles = np.concatenate(
        [joint(released, found, (column,)) for column in range(3)], axis=1
    )
    exact = [
        numbered_table(columns=columns, counts=counts, noise_std=NOISE[columns])
        for columns, counts in own.items()
    ]
    # Numbers of records and single columns as they are, which the tables would shrink.
    exact_tables = replace(
        pack_tables(exact, numbered_domain(SIZES), LABEL),
        class_counts=released.class_counts,
        one_way_counts=singles,
    )
    distance = Distance(exact_tables)
    expected = distance.expected(found)
    assert distance.squared_distance(expected) < 1e-6
    gradient = distance.gradient(expected, found)
    assert np.abs(gradient.cells).max() < 0.01 and np.abs(gradient.weights).max() < 0.01


@pytest.mark.parametrize("part", ["weights", "cells"])
def test_the_gradient_is_that_of_the_distance(part):
    """Against differences over a small step in a random direction: half a step before and half a step behind."""
    released, found = tables(), components()
    distance = Distance(released)
    gradient = getattr(distance.gradient(distance.expected(found), found), part).astype(
        float
    )
    for seed in range(5):
        direction = np.random.default_rng(seed).normal(size=gradient.shape)
        ends = []
        for step in (5e-4, -5e-4):
            moved = {"weights": found.weights, "cells": found.cells}
            moved[part] = moved[part].astype(float) + step * direction
            at = Components(**moved)
            ends.append(larger(released, at) + single(released, at))
        assert (ends[0] - ends[1]) / 1e-3 == pytest.approx(
            (gradient * direction).sum(), rel=1e-3
        )
