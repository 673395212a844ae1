"""Files that `sample` writes can be read with the schema they were made with."""

from datetime import UTC, date, datetime

import numpy as np
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal

from noisegate.models.output.sample_file import table_writer
from noisegate.schema import Date, Datetime, EncodedTable, Schema, decode
from noisegate.sources.tables.tables import TableSource

COLUMNS = (
    continuous("x", -1.0, 1e9, missing=True),
    integer("n", 0, 10, missing=True),
    Date(name="day", lower=date(2020, 1, 1), upper=date(2020, 12, 31), missing=True),
    Datetime(
        name="at",
        lower=datetime(2020, 1, 1, tzinfo=UTC),
        upper=datetime(2021, 1, 1, tzinfo=UTC),
        missing=True,
    ),
    categorical("c", ("a", 'b, "quoted"'), missing=True),
    ordinal("o", (1, 2, 3), missing=True),
    boolean("y", missing=True),
    integer("all", 0, 1),
)


def records(rows=200):
    """Records with missing cells in the second batch only, so that both batches must be written alike."""
    random = np.random.default_rng(1)
    numeric = random.random((rows, 5))
    codes = np.stack(
        [random.integers(0, size, rows) for size in (2, 3, 2)], axis=1
    ).astype(np.int32)
    absent = np.zeros((rows, 8), dtype=bool)
    absent[rows // 2 :] = random.random((rows // 2, 8)) < 0.3
    numeric[:, :4][absent[:, :4]] = np.nan
    codes = np.where(absent[:, 4:7], [2, 3, 2], codes).astype(np.int32)
    return EncodedTable(numeric, codes)


@pytest.mark.parametrize(
    "missing_values", [("?",), ("?", "n/a, unknown"), ("n/a, unknown",), ("", "?")]
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_missing_cells_are_read_again_as_missing(missing_values, ending, tmp_path):
    schema = Schema(COLUMNS, missing_values=missing_values)
    tables = [
        decode(records().rows(part), schema)
        for part in (slice(0, 100), slice(100, 200))
    ]
    out = tmp_path / f"synthetic.{ending}"
    with table_writer(out, schema) as write:
        for table in tables:
            write(table)
    decoded = decode(
        EncodedTable.concatenate(list(TableSource(out, schema).batches())), schema
    )
    assert decoded.slice(0, 100).equals(tables[0])
    assert decoded.slice(100).equals(tables[1])
    assert all(decoded[name].null_count > 10 for name in schema.names[:-1])
    if ending == "csv":
        assert (",," in out.read_text()) is ("" in missing_values)
