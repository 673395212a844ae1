"""Real tables, drafted as if they were their own public sample: the draft, the fit and the samples together."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from noisegate import synthesize
from noisegate.app.drafts.draft import draft_schema

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
