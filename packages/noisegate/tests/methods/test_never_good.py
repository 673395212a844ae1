"""A verdict is no better than what an analyst can rely on: amounts in one cell, associations that are lost."""

import warnings
from dataclasses import replace
from datetime import date
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

import noisegate
from noisegate import Budget, Gate, Pairwise, Schema, synthesize
from noisegate.app.drafts.draft import draft_schema
from noisegate.errors import FitWarning
from noisegate.methods.linked import Linked
from noisegate.models.tables.associations import measured_associations, measured_moments
from noisegate.schema import Continuous, Date, Decimal, Integer
from noisegate.schema.encode import encode
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
    random, errors, coefficients_kept, names, factor = (
        np.random.default_rng(0),
        [],
        [],
        "abcdef",
        0.6 + 0.8j,
    )
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
            np.corrcoef(np.argsort(np.argsort(each, axis=0), axis=0).T)
            for each in (numbers, sampled(model))
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
    random, names = np.random.default_rng(0), [f"x{index}" for index in range(80)]
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
    random, admitted = (
        np.random.default_rng(0),
        Date(name="admitted", lower=date(2021, 1, 1), upper=date(2023, 12, 31)),
    )
    begun, icu = random.integers(0, 1000, RECORDS), random.random(RECORDS) < 0.4
    days = np.minimum(random.exponential(np.where(icu, 12, 3)).astype(int), 90)
    first = np.datetime64("2021-01-01")
    dates = {"admitted": first + begun, "icu": icu}
    two = Schema([admitted, boolean("icu"), replace(admitted, name="discharged")])
    one = Schema([admitted, boolean("icu"), integer("days", 0, 90)])
    near = synthesize(
        pa.table({**dates, "discharged": first + begun + days}),
        schema=two,
        epsilon=3.0,
        seed=0,
    )
    apart = synthesize(
        pa.table({**dates, "days": days}), schema=one, epsilon=3.0, seed=0
    )
    reason = "too close to be told apart, so that what sets them apart misleads: 'admitted' and 'discharged'"
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
    random, north = np.random.default_rng(0), np.arange(RECORDS) % 2 == 0
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
    random, parents = np.random.default_rng(0), 4000
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


# Tables of any kind and size, at any ε: a fit ends, what it draws keeps to the schema, and far fits say so.

LABELS = ("none", "boolean", "three", "ten", "numeric", "rare")


def random_tables_made(seed):
    """A table of 1 to 9 dependent columns and 1 to 4,000 records, with its schema, a label of any kind, and ε."""
    random = np.random.default_rng(seed)
    rows = int(np.exp(random.uniform(0, np.log(4000))))
    hidden = random.normal(size=(rows, 2))
    columns, values = [], {}
    for index in range(random.integers(1, 10)):
        name, strength = f"c{index}", random.choice([0.0, 0.5, 3.0])
        signal = strength * hidden @ random.normal(size=2) + random.normal(size=rows)
        missing = bool(random.random() < 0.3)
        kind = random.integers(4)
        if kind == 0:
            columns.append(
                continuous(
                    name, -5.0, float(random.choice([5.0, 1e6])), missing=missing
                )
            )
            values[name] = np.clip(
                np.exp(signal) if random.random() < 0.5 else signal, -5, 5
            )
        elif kind == 1:
            columns.append(
                integer(name, 0, int(random.choice([1, 9, 10**6])), missing=missing)
            )
            values[name] = np.clip((signal * 2).astype(np.int64), 0, columns[-1].upper)
        else:
            size = int(random.choice([1, 2, 7, 40]))
            columns.append(
                categorical(
                    name, tuple(f"l{level}" for level in range(size)), missing=missing
                )
            )
            values[name] = np.array(
                [
                    f"l{level}"
                    for level in np.clip((signal * 2 + size / 2), 0, size - 1).astype(
                        int
                    )
                ]
            )
        if missing:
            values[name] = pa.array(values[name], mask=random.random(rows) < 0.2)
    kind = random.choice(LABELS)
    chance = 1 / (1 + np.exp(-2 * hidden[:, 0]))
    if kind in ("boolean", "rare"):
        columns.append(boolean("y"))
        values["y"] = random.random(rows) < (
            chance if kind == "boolean" else 0.02 * chance
        )
    elif kind in ("three", "ten"):
        levels = 3 if kind == "three" else 10
        columns.append(
            categorical(
                "y", tuple(map(str, range(levels))), missing=bool(random.random() < 0.5)
            )
        )
        values["y"] = (
            np.clip(chance * levels + random.normal(size=rows), 0, levels - 1)
            .astype(int)
            .astype(str)
        )
    elif kind == "numeric":
        columns.append(continuous("y"))
        values["y"] = chance
    label = None if kind == "none" else "y"
    return (
        pa.table(values),
        Schema(tuple(columns), label=label),
        float(10 ** random.uniform(-2, 1.5)),
    )


def check(seed):
    table, schema, epsilon = random_tables_made(seed)
    count_is_public = bool(seed % 2)
    gate = Gate(
        table,
        schema=schema,
        epsilon=epsilon,
        **({"records": table.num_rows} if count_is_public else {}),
    )
    method = Pairwise(seed=seed, fit_options={"components": 60})
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        model = method.fit(gate)
    far = [one for one in caught_warnings if issubclass(one.category, FitWarning)]
    assert not [str(one.message) for one in caught_warnings if one not in far]
    assert bool(far) == (2 < model.summary.discrepancy < np.inf)
    drawn = model.sample(200, seed=0)
    assert drawn.num_rows == 200
    assert drawn.schema.names == list(schema.names)
    encode({name: drawn[name].combine_chunks() for name in schema.names}, schema)


@pytest.mark.parametrize("seed", range(12))
def test_any_table_is_fitted_and_drawn(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 212))
def test_two_hundred_tables_are_fitted_and_drawn(seed):
    check(seed)


# From private records to synthetic ones: values stand on the grid that the schema states, atoms come back exactly.

ROWS = 6000
SCHEMA = Schema(
    [
        Decimal(name="price", lower=0, upper=200, step=0.01, atoms=[0, 9.99]),
        Decimal(name="rate", lower=5.05, upper=31.0, step=0.05),
        integer("dose", 5, 500, step=5, atoms=[0, 999], missing=True),
        continuous("length", 0.5, 60, atoms=[0, 12.7]),
        integer("income", 0, 2_000_000, atoms=[50_000, 60_000, 9_999_999]),
        categorical("group", "ab"),
    ],
    label="group",
)


def mixed(random, parts, others):
    """Returns values of which each of `parts` has the given share."""
    shares = list(parts.values())
    chosen = random.choice(len(parts) + 1, len(others), p=[*shares, 1 - sum(shares)])
    return np.choose(chosen, [*parts, others])


@pytest.fixture(scope="module")
def private():
    random = np.random.default_rng(8)
    ones = np.ones(ROWS)
    dose = mixed(random, {0: 0.3, 999: 0.05}, 5 * random.integers(1, 101, ROWS)).astype(
        float
    )
    dose[random.random(ROWS) < 0.1] = np.nan
    income = mixed(
        random,
        {50_000: 0.05, 60_000: 0.04, 9_999_999: 0.08},
        random.gamma(3, 20_000, ROWS).astype(int),
    )
    return pa.table(
        {
            "price": mixed(
                random,
                {0: 0.2, 9.99: 0.1},
                np.round(random.gamma(2, 20, ROWS).clip(0.01, 200), 2),
            ),
            "rate": np.round(5.05 + 0.05 * random.integers(0, 500, ROWS), 2),
            "dose": pa.array(dose, from_pandas=True),
            "length": mixed(random, {0: 0.1, 12.7: 0.1}, random.uniform(1, 50, ROWS)),
            "income": income.astype(int),
            "group": np.where(random.random(ROWS) < 0.4 * ones, "a", "b"),
        }
    )


SETTINGS = {
    "pairwise": {"method": "pairwise"},
    "dp-merf": {
        "method": "dp-merf",
        "fit_options": {"steps": 40},
        "frequencies": 100,
        "hidden": [16],
    },
}


@pytest.mark.parametrize("method", SETTINGS)
def test_synthetic_values_stand_on_the_grid_of_the_schema_in_files_too(
    private, method, tmp_path
):
    synthetic = synthesize(
        private, schema=SCHEMA, epsilon=3.0, **SETTINGS[method]
    ).sample(4000, seed=1)
    csv.write_csv(synthetic, tmp_path / "made.csv")
    again = csv.read_csv(
        tmp_path / "made.csv",
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(synthetic.column_names, pa.string())
        ),
    )
    for name, decimals in (("price", 2), ("rate", 2), ("dose", 0), ("income", 0)):
        assert (
            max(len(cell.partition(".")[2]) for cell in again[name].to_pylist() if cell)
            <= decimals
        )
    rate = np.array(synthetic["rate"])
    assert np.array_equal(
        rate, np.round(5.05 + 0.05 * np.rint((rate - 5.05) / 0.05), 2)
    )
    dose = {value for value in synthetic["dose"].to_pylist() if value is not None}
    assert dose <= {0, 999, *range(5, 501, 5)}
    income = np.array(synthetic["income"])
    assert set(income[income > 2_000_000].tolist()) <= {9_999_999}


def test_atoms_come_back_exactly_and_as_often_as_in_the_records_up_to_the_noise(
    private,
):
    model = synthesize(private, schema=SCHEMA, epsilon=3.0, method="pairwise")
    drawn = model.sample(20_000, seed=2)
    for name in SCHEMA.layout.numeric_places:
        for atom in SCHEMA.column(name).atoms:
            real, synthetic = (
                np.mean(np.array(table[name]) == atom) for table in (private, drawn)
            )
            assert real > 0.03
            assert synthetic == pytest.approx(real, abs=0.02), (name, atom)
    conditioned = model.sample(500, seed=3, where={"income": 9_999_999})
    assert set(conditioned["income"].to_pylist()) == {9_999_999}
    assert (
        max(
            model.sample(2000, seed=4, where={"income": (100_000, None)})[
                "income"
            ].to_pylist()
        )
        <= 2_000_000
    )


# Real tables, drafted as if they were their own public sample: the draft, the fit and the samples together.

REAL = {
    "tables/diamonds": {
        "carat": 0.01,
        "depth": 0.1,
        "table": 0.1,
        "x": 0.01,
        "y": 0.01,
        "z": 0.01,
    },
    "tables/loans": {
        "interest_rate": 0.01,
        "debt_to_income": 0.01,
        "loan_amount": 25,
        "balance": 0.01,
    },
    "linked/nlswork": {},
    "adult/train": {},
}
ATOMS = {
    "tables/loans": {
        "total_collection_amount_ever": 0,
        "balance": 0.0,
        "loan_amount": 10_000,
    },
    "adult/train": {"capital-gain": 99_999, "capital-loss": 0},
}
NAMED = ("rownames", "idcode", "emp_title", "fnlwgt")


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_a_real_table_is_drafted_fitted_and_sampled_on_its_own_grid(
    name, data_dir, tmp_path
):
    private = csv.read_csv(data_dir / f"{name}.csv")
    private = private.drop_columns(
        [column for column in NAMED if column in private.column_names]
    )
    csv.write_csv(private, tmp_path / "public.csv")
    schema = draft_schema(tmp_path / "public.csv")
    model = synthesize(tmp_path / "public.csv", schema=schema, epsilon=1.0)
    table = pa.concat_tables(model.batches(10_000, seed=0))
    for column, step in REAL[name].items():
        assert schema.column(column).step == step
        numbers = np.array(
            [value for value in table[column].to_pylist() if value is not None]
        )
        assert np.array_equal(numbers, np.round(np.rint(numbers / step) * step, 2))
    for column, atom in ATOMS.get(name, {}).items():
        assert atom in schema.column(column).atoms
        real, synthetic = (
            np.mean([value == atom for value in of[column].to_pylist()])
            for of in (private, table)
        )
        assert synthetic == pytest.approx(real, rel=0.3, abs=0.02)
    assert model.kept_share > 0.3
