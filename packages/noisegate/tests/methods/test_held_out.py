"""Counts that the fit never sees: chosen by the schema alone, part of one plan, and without effect on the fit."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, integer

from noisegate import Budget, Gate, Pairwise, Schema
from noisegate.methods.held_out import HELD_OUT

SCHEMA = Schema(
    (
        integer("age", 0, 99),
        categorical("town", range(40)),
        categorical("work", "abc"),
        boolean("ill"),
    ),
    label="ill",
)
FEW = {"cells": 4, "fit_options": {"components": 8, "steps": 20}}


def rows(count=500):
    draw = np.random.default_rng(0)
    age = draw.integers(0, 100, count)
    town = draw.integers(0, 40, count)
    work = np.array(["a", "b", "c"])[draw.integers(0, 3, count)]
    return pa.table({"age": age, "town": town, "work": work, "ill": age > 60})


def test_they_are_paid_for_out_of_the_same_budget():
    budget = Budget(epsilon=1.0)
    bare, more = (
        Pairwise(report_share=share).plan(SCHEMA, budget) for share in (0.0, 0.05)
    )
    assert {release.query.name for release in more.releases} - {
        release.query.name for release in bare.releases
    } == {HELD_OUT}
    assert more.epsilon == pytest.approx(bare.epsilon) == pytest.approx(1.0)
    ratio = (
        more.release("pairs").noise_std_natural
        / bare.release("pairs").noise_std_natural
    )
    assert ratio == pytest.approx(np.sqrt(1.06 / 1.01), rel=1e-3)


def test_what_is_released_is_their_counts():
    # At a huge ε the noise on a count is far below one record.
    table = rows()
    release = Pairwise(report_share=0.05, **FEW).query(
        Gate(table, schema=SCHEMA, epsilon=1000.0)
    )
    assert release.certificate.check() <= 1000.0
    stated = Pairwise(report_share=0.05, **FEW).held_out_measurements(release)
    ages, works = stated.tables
    cells = stated.domain.by_name["age"]
    age = table["age"].to_numpy()
    ill = table["ill"].to_numpy(zero_copy_only=False)
    for cell in range(4):
        # 24.75 is no age: the first quarter ends at 24.
        inside = (age >= cells[cell].low) & (age <= cells[cell].high)
        assert ages.counts[cell] == pytest.approx(
            [(inside & ~ill).sum(), (inside & ill).sum()], abs=3
        )
    assert works.counts.sum() == pytest.approx(500, abs=5)
    nothing = dataclasses.replace(release, values={})
    assert Pairwise().held_out_measurements(nothing).tables == ()


def test_the_fit_does_not_look_at_them():
    method = Pairwise(report_share=0.05, **FEW)
    release = method.query(Gate(rows(), schema=SCHEMA, epsilon=2.0))
    other = dataclasses.replace(
        release, values={**release.values, HELD_OUT: release.values[HELD_OUT] + 1000}
    )
    first, second = (
        method.fit_release(kept_release).sample(200, seed=0)
        for kept_release in (release, other)
    )
    assert first.equals(second)
