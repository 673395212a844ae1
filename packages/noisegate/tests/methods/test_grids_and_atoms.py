"""From private records to synthetic ones: values stand on the grid that the schema states, atoms come back exactly."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from tests.shared.columns import categorical, continuous, integer

from noisegate import Schema, synthesize
from noisegate.schema import Decimal

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
