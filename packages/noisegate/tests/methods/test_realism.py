"""From private records to synthetic ones: values stand on the grid that the schema states, atoms come back exactly."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from noisegate import Schema, synthesize
from noisegate.discovery.draft import draft_schema
from noisegate.schema import Categorical, Continuous, Decimal, Integer

ROWS = 6000
SCHEMA = Schema(
    [
        Decimal(name="price", lower=0, upper=200, step=0.01, atoms=[0, 9.99]),
        Decimal(name="rate", lower=5.05, upper=31.0, step=0.05),
        Integer(name="dose", lower=5, upper=500, step=5, atoms=[0, 999], missing=True),
        Continuous(name="length", lower=0.5, upper=60, atoms=[0, 12.7]),
        Integer(name="income", lower=0, upper=2_000_000, atoms=[50_000, 60_000, 9_999_999]),
        Categorical(name="group", levels=("a", "b")),
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
    dose = mixed(random, {0: 0.3, 999: 0.05}, 5 * random.integers(1, 101, ROWS)).astype(float)
    dose[random.random(ROWS) < 0.1] = np.nan
    income = mixed(random, {50_000: 0.05, 60_000: 0.04, 9_999_999: 0.08}, random.gamma(3, 20_000, ROWS).astype(int))
    return pa.table(
        {
            "price": mixed(random, {0: 0.2, 9.99: 0.1}, np.round(random.gamma(2, 20, ROWS).clip(0.01, 200), 2)),
            "rate": np.round(5.05 + 0.05 * random.integers(0, 500, ROWS), 2),
            "dose": pa.array(dose, from_pandas=True),
            "length": mixed(random, {0: 0.1, 12.7: 0.1}, random.uniform(1, 50, ROWS)),
            "income": income.astype(int),
            "group": np.where(random.random(ROWS) < 0.4 * ones, "a", "b"),
        }
    )


SETTINGS = {
    "pairwise": {"method": "pairwise"},
    "dp-merf": {"method": "dp-merf", "fit_options": {"steps": 40}, "frequencies": 100, "hidden": [16]},
}


@pytest.mark.parametrize("method", SETTINGS)
def test_synthetic_values_stand_on_the_grid_of_the_schema_in_files_too(private, method, tmp_path):
    made = synthesize(private, schema=SCHEMA, epsilon=3.0, **SETTINGS[method]).sample(4000, seed=1)
    csv.write_csv(made, tmp_path / "made.csv")
    again = csv.read_csv(
        tmp_path / "made.csv",
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(made.column_names, pa.string())),
    )
    for name, decimals in (("price", 2), ("rate", 2), ("dose", 0), ("income", 0)):
        assert max(len(cell.partition(".")[2]) for cell in again[name].to_pylist() if cell) <= decimals
    rate = np.array(made["rate"])
    assert np.array_equal(rate, np.round(5.05 + 0.05 * np.rint((rate - 5.05) / 0.05), 2))
    dose = {value for value in made["dose"].to_pylist() if value is not None}
    assert dose <= {0, 999, *range(5, 501, 5)}
    income = np.array(made["income"])
    assert set(income[income > 2_000_000].tolist()) <= {9_999_999}


def test_atoms_come_back_exactly_and_as_often_as_in_the_records_up_to_the_noise(private):
    model = synthesize(private, schema=SCHEMA, epsilon=3.0, method="pairwise")
    made = model.sample(20_000, seed=2)
    for name in SCHEMA.layout.numeric_places:
        for atom in SCHEMA.column(name).atoms:
            real, synthetic = (np.mean(np.array(table[name]) == atom) for table in (private, made))
            assert real > 0.03
            assert synthetic == pytest.approx(real, abs=0.02), (name, atom)
    asked = model.sample(500, seed=3, where={"income": 9_999_999})
    assert set(asked["income"].to_pylist()) == {9_999_999}
    assert max(model.sample(2000, seed=4, where={"income": (100_000, None)})["income"].to_pylist()) <= 2_000_000


# Real tables, drafted as if they were their own public sample: the draft, the fit and the samples together.

REAL = {
    "tables/diamonds": {"carat": 0.01, "depth": 0.1, "table": 0.1, "x": 0.01, "y": 0.01, "z": 0.01},
    "tables/loans": {"interest_rate": 0.01, "debt_to_income": 0.01, "loan_amount": 25, "balance": 0.01},
    "linked/nlswork": {},
    "adult/train": {},
}
ATOMS = {
    "tables/loans": {"total_collection_amount_ever": 0, "balance": 0.0, "loan_amount": 10_000},
    "adult/train": {"capital-gain": 99_999, "capital-loss": 0},
}
NAMED = ("rownames", "idcode", "emp_title", "fnlwgt")


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_a_real_table_is_drafted_fitted_and_sampled_on_its_own_grid(name, data_dir, tmp_path):
    private = csv.read_csv(data_dir / f"{name}.csv")
    private = private.drop_columns([column for column in NAMED if column in private.column_names])
    csv.write_csv(private, tmp_path / "public.csv")
    schema = draft_schema(tmp_path / "public.csv")
    made = synthesize(tmp_path / "public.csv", schema=schema, epsilon=1.0)
    table = pa.concat_tables(made.batches(10_000, seed=0))
    for column, step in REAL[name].items():
        assert schema.column(column).step == step
        numbers = np.array([value for value in table[column].to_pylist() if value is not None])
        assert np.array_equal(numbers, np.round(np.rint(numbers / step) * step, 2))
    for column, atom in ATOMS.get(name, {}).items():
        assert atom in schema.column(column).atoms
        real, synthetic = (np.mean([value == atom for value in of[column].to_pylist()]) for of in (private, table))
        assert synthetic == pytest.approx(real, rel=0.3, abs=0.02)
    assert made.kept_share > 0.3
