"""A verdict is no better than what an analyst can rely on: amounts in one cell, associations that are lost."""

from dataclasses import replace
from datetime import date
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, continuous, integer

import noisegate
from noisegate import Budget, Pairwise, Schema, synthesize
from noisegate.methods.linked import Linked
from noisegate.models.tables.associations import measured_associations, measured_moments
from noisegate.schema import Continuous, Date, Integer
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable

RECORDS = 10_000


def fitted_amounts(amounts, column):
    table = pa.table(
        {"amount": amounts, "ill": np.random.default_rng(1).random(len(amounts)) < 0.4}
    )
    return noisegate.synthesize(
        table, schema=Schema([column, boolean("ill")]), epsilon=1.0, seed=0
    )


@pytest.mark.parametrize("kind", [Continuous, Integer])
@pytest.mark.parametrize("lower", [0, -1000, 1])
def test_generous_bounds_blur_no_amounts(kind, lower):
    amounts = np.exp(np.log(20) + np.random.default_rng(0).standard_normal(RECORDS))
    amounts = np.maximum(
        np.floor(amounts).astype(int) if kind is Integer else amounts, lower
    )
    model = fitted_amounts(amounts, kind(name="amount", lower=lower, upper=1_000_000))
    synthetic = np.asarray(model.sample(RECORDS, seed=0)["amount"])
    for part in (0.05, 0.5, 0.95):
        there = (amounts <= np.quantile(synthetic, part)).mean()
        assert abs(there - part) < 0.06, (part, there)


def test_amounts_that_are_all_alike_stay_so():
    synthetic = fitted_amounts(
        np.full(RECORDS, 0.01), continuous("amount", 0, 1e6)
    ).sample(1000, seed=0)
    assert np.min(synthetic["amount"]) > 0.005
    assert np.quantile(synthetic["amount"], 0.99) < 0.02


def test_what_lies_in_one_cell_far_from_zero_is_said_and_not_good():
    amounts = 500_000 + 100 * np.random.default_rng(0).random(RECORDS)
    verdict = fitted_amounts(amounts, continuous("amount", 0, 1e6)).verdict
    assert verdict.word == "rough"
    assert (
        "100% of records have 'amount' between 500000 and 500977: nothing finer was measured"
        in verdict.reasons
    )
    assert "bounds of 'amount' that are nearer to its values" in verdict.cures


def wide(records, seed, strength=0.8):
    """A clinic's table: 35 numbers of which neighbours go together, and a label."""
    random = np.random.default_rng(seed)
    numbers = random.standard_normal((records, 35))
    numbers[:, 1::2] = (
        strength * numbers[:, :-1:2] + np.sqrt(1 - strength**2) * numbers[:, 1::2]
    )
    table = {
        f"x{index}": np.clip(column, -3, 3) for index, column in enumerate(numbers.T)
    }
    columns = [continuous(name, -3, 3) for name in table]
    label = random.random(records) < 0.1
    return pa.table(table | {"ill": label}), Schema(
        [*columns, boolean("ill")], label="ill"
    )


def test_pairs_that_drown_are_named_before_spending_and_after():
    table, schema = wide(858, 0)
    planned = Pairwise().verdict(schema, Budget(epsilon=1.0), records=858)
    assert planned.word in (
        "rough",
        "noise",
    )
    assert "of 595 pairs of columns none would be measured" in str(planned)
    verdict = noisegate.synthesize(table, schema=schema, epsilon=1.0).verdict
    assert verdict.word in ("rough", "noise")
    assert any(
        "595 of 630 pairs of columns were not measured" in reason
        for reason in verdict.reasons
    )
    assert any(
        reason.startswith("too noisy to show any association, so not known: ")
        for reason in verdict.reasons
    )
    assert verdict.figures["pairs_not_known"] > 0
    assert "strongest" not in str(planned) + str(verdict)


@pytest.mark.parametrize(
    ("records", "least", "most"), [(1000, -0.2, 0.08), (4000, -0.05, 0.05)]
)
def test_the_part_of_associations_that_is_kept_is_not_told_for_more_than_it_is(
    records, least, most
):
    """By the release alone, whose noise both share. 24 releases: -.08 and .01; of coefficients -.09 and -.01."""
    random = np.random.default_rng(0)
    errors = []
    coefficients_kept = []
    names = "abcdef"
    factor = 0.6 + 0.8j
    schema = Schema([continuous(name, -3, 3) for name in names])
    for seed in range(6):
        base = random.standard_normal((records, 2))
        numbers = np.stack(
            [
                np.real(factor**k) * base[:, 0] + np.imag(factor**k) * base[:, 1]
                for k in range(6)
            ],
            axis=1,
        )
        numbers = np.clip(
            (numbers + 0.7 * random.standard_normal(numbers.shape)) / np.hypot(1, 0.7),
            -3,
            3,
        )
        table = pa.table(dict(zip(names, numbers.T, strict=True)))
        method = Pairwise(seed=seed)
        model = noisegate.synthesize(table, schema=schema, epsilon=0.7, method=method)
        (fitting := method.fitting(model.release)).run()
        seen = measured_associations(
            measured_moments(fitting.released, fitting).by_rank
        )
        assert [association.columns for association in seen] == list(
            combinations(range(6), 2)
        )
        ours, theirs = (
            np.corrcoef(np.argsort(np.argsort(values, axis=0), axis=0).T)
            for values in (numbers, sampled(model))
        )
        upper = np.triu_indices(6, 1)
        truth = (ours[upper] @ theirs[upper]) / (ours[upper] @ ours[upper])
        errors.append(
            sum(association.shared for association in seen)
            / sum(association.released for association in seen)
            - truth
        )
        real, drawn = (
            -inverse / inverse.diagonal()
            for inverse in map(np.linalg.inv, (ours, theirs))
        )
        large = np.abs(real + np.eye(6)) >= 0.1
        kept_share = (
            1 - np.minimum(np.abs(drawn - real)[large] / np.abs(real[large]), 1).mean()
        )
        coefficients_kept.append(
            (model.verdict.figures["coefficients_kept"], kept_share)
        )
    assert least < np.mean(errors) < most, errors
    assert -0.3 < np.subtract(*np.transpose(coefficients_kept)).mean() < 0.2, (
        coefficients_kept
    )


def sampled(model):
    drawn = model.sample(20_000, seed=1)
    return np.stack([np.asarray(drawn[name]) for name in "abcdef"], axis=1)


def test_a_fit_of_some_pairs_that_were_chosen_is_usable_at_best():
    random = np.random.default_rng(0)
    numbers = np.clip(
        0.9 * random.standard_normal((RECORDS, 1))
        + 0.4 * random.standard_normal((RECORDS, 7)),
        -3,
        3,
    )
    table = pa.table(dict(zip("abcdefg", numbers.T, strict=True)))
    schema = Schema([continuous(name, -3, 3) for name in "abcdefg"])
    for settings, word in (
        ({"pairs": "chosen", "most_pairs": 10}, "usable"),
        ({}, "good"),
    ):
        verdict = noisegate.synthesize(
            table, schema=schema, epsilon=50.0, method=Pairwise(**settings)
        ).verdict
        assert verdict.word == word
        assert ("of 21 pairs of columns were not measured" in str(verdict)) == bool(
            settings
        )


def test_a_table_of_many_columns_that_all_drown_is_fitted_and_is_noise():
    random = np.random.default_rng(0)
    names = [f"x{index}" for index in range(80)]
    table = {name: random.random(300) for name in names} | {
        "ill": random.random(300) < 0.4
    }
    columns = [continuous(name, 0, 1) for name in names]
    model = synthesize(
        pa.table(table),
        schema=Schema([*columns, boolean("ill")], label="ill"),
        epsilon=0.1,
    )
    assert model.verdict.word == "noise"
    assert model.sample(10, seed=0).num_columns == 81


def test_two_dates_of_which_one_nearly_tells_the_other_are_said_to_be_and_days_between_them_are_kept():
    random = np.random.default_rng(0)
    admitted = Date(name="admitted", lower=date(2021, 1, 1), upper=date(2023, 12, 31))
    begun = random.integers(0, 1000, RECORDS)
    icu = random.random(RECORDS) < 0.4
    days = np.minimum(random.exponential(np.where(icu, 12, 3)).astype(int), 90)
    first = np.datetime64("2021-01-01")
    dates = {"admitted": first + begun, "icu": icu}
    two = Schema([admitted, boolean("icu"), replace(admitted, name="discharged")])
    schema_with_days = Schema([admitted, boolean("icu"), integer("days", 0, 90)])
    near = synthesize(
        pa.table({**dates, "discharged": first + begun + days}),
        schema=two,
        epsilon=3.0,
        seed=0,
    )
    apart = synthesize(
        pa.table({**dates, "days": days}), schema=schema_with_days, epsilon=3.0, seed=0
    )
    reason = "the difference of these nearly equal columns is wrong in this copy: 'admitted' and 'discharged'"
    assert near.verdict.word == "usable"
    assert reason in near.verdict.reasons
    assert apart.verdict.word in ("usable", "good")
    assert "too_close" not in apart.verdict.figures
    synthetic = near.sample(RECORDS, seed=0)
    between = synthetic["discharged"].to_numpy() - synthetic["admitted"].to_numpy()
    assert between.astype(int).std() > 2 * days.std(), "what is said is so"
    synthetic = apart.sample(RECORDS, seed=0)
    for where in (True, False):
        drawn = synthetic["days"].to_numpy()[synthetic["icu"].to_numpy() == where]
        assert drawn.mean() == pytest.approx(days[icu == where].mean(), rel=0.1)


def test_numbers_whose_groups_lie_far_apart_are_said_to_be_close_to_them():
    """Ranks hide it: associations are kept, and longitudes inside a town spread three times as far, or more."""
    random = np.random.default_rng(0)
    north = np.arange(RECORDS) % 2 == 0
    east = np.where(north, 18.07, 11.97) + random.normal(0, 0.07, RECORDS)
    columns = (
        continuous("east", 11, 19),
        boolean("north"),
        boolean("ill"),
    )
    table = {
        "east": east,
        "north": north,
        "ill": random.random(RECORDS) < np.where(north, 0.1, 0.2),
    }
    model = synthesize(pa.table(table), schema=Schema(columns), epsilon=10.0, seed=0)
    assert model.verdict.word == "usable"
    assert model.verdict.figures["too_close"] == ["'east' and 'north'"]
    drawn = model.sample(RECORDS, seed=0)
    assert drawn["east"].to_numpy()[drawn["north"].to_numpy()].std() > 3 * 0.07, (
        "what is said is so"
    )


def test_generous_bounds_blur_no_amounts_of_linked_tables():
    random = np.random.default_rng(0)
    parents = 4000
    owner = np.repeat(np.arange(parents), 2)
    amounts = np.exp(np.log(20) + random.standard_normal(len(owner)))
    people = LinkedTable(name="people", key="id", schema=Schema([boolean("ill")]))
    costs = Schema([continuous("cost", 0, 1_000_000)])
    schema = LinkedSchema(
        [people, LinkedTable(name="visits", schema=costs, parent="people", most=3)]
    )
    tables = {
        "people": pa.table(
            {"id": np.arange(parents), "ill": random.random(parents) < 0.3}
        ),
        "visits": pa.table({"id": owner, "cost": amounts}),
    }
    settings = {"components": 20, "steps": 20}
    model = noisegate.synthesize(
        tables, schema=schema, epsilon=1.0, method=Linked(fit_options=settings)
    )
    synthetic = np.asarray(model.sample(parents, seed=0)["visits"]["cost"])
    assert abs((amounts <= np.median(synthetic)).mean() - 0.5) < 0.1
