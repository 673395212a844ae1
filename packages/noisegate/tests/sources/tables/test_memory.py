"""Every kind of table in memory gives the same records, bit for bit; what is none is refused with the line to write."""

import datetime as dt
from decimal import Decimal

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.errors import DataError, installed
from noisegate.models.output.native_table import native_form
from noisegate.schema import Datetime, EncodedTable, Schema
from noisegate.sources import TableSource
from noisegate.sources.tables.memory import MixedObjects, objects_to_arrow

SECRET = "Ms Q. Zebra"
SCHEMA = Schema(
    (
        integer("age", 0, 99),
        continuous("rate", missing=True),
        categorical("work", "ab"),
        boolean("ill"),
    )
)
CELLS = {
    "age": [31, 58, 44],
    "rate": [0.5, None, 0.25],
    "work": ["a", "b", "a"],
    "ill": [True, False, True],
}
NUMBERS = Schema((integer("age", 0, 99), continuous("rate", missing=True)))
DTYPE = [("age", np.int32), ("rate", np.float64), ("work", "U1"), ("ill", np.bool_)]
STRUCTURED = np.array(
    [(31, 0.5, "a", True), (58, np.nan, "b", False), (44, 0.25, "a", True)], dtype=DTYPE
)


def encode(data, schema=SCHEMA, **options):
    encoded_records = EncodedTable.concatenate(
        list(TableSource(data, schema, batch_rows=2, **options).batches())
    )
    return encoded_records.numeric.tobytes(), encoded_records.codes.tobytes()


def arrays():
    return {name: STRUCTURED[name] for name in CELLS}


def tensors():
    import torch

    return arrays() | {
        "age": torch.tensor(CELLS["age"]),
        "ill": torch.tensor(CELLS["ill"]),
    }


KINDS = {
    "dict of lists": lambda: CELLS,
    "dict of arrays": arrays,
    "dict of series": lambda: {
        "age": pd.Series(CELLS["age"], dtype="Int64"),
        "rate": pl.Series(CELLS["rate"]),
        "work": pd.Series(CELLS["work"], dtype="category"),
        "ill": pa.array(CELLS["ill"]),
    },
    "dict of tensors": tensors,
    "array of objects": lambda: np.array(
        list(zip(*CELLS.values(), strict=True)), dtype=object
    ),
    "structured array": lambda: STRUCTURED,
    "structured array in another order": lambda: STRUCTURED[
        ["work", "ill", "rate", "age"]
    ],
    "lazy frame": lambda: pl.LazyFrame(CELLS),
    "Hugging Face": lambda: datasets.Dataset.from_dict(CELLS),
    "Hugging Face, of another format": lambda: datasets.Dataset.from_dict(
        CELLS
    ).with_format("numpy"),
    "Hugging Face, shuffled and back": lambda: (
        datasets.Dataset.from_dict(CELLS).select([2, 0, 1]).select([1, 2, 0])
    ),
    "Hugging Face, iterable": lambda: datasets.Dataset.from_dict(
        CELLS
    ).to_iterable_dataset(),
}
SAMPLED = dict(
    dict=dict,
    array=np.ndarray,
    structured=np.recarray,
    lazy=pl.DataFrame,
    Hugging=datasets.Dataset,
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_records(kind):
    if "tensor" in kind and not installed("torch"):
        pytest.skip("torch is not installed")
    data = KINDS[kind]()
    assert encode(data) == encode(pa.table(CELLS))
    assert encode(data) == encode(data)  # read twice
    form = native_form(data, SCHEMA)(pa.table(CELLS))
    assert isinstance(form, SAMPLED[kind.split()[0]])
    assert encode(form) == encode(pa.table(CELLS)), "what is sampled can be given again"


@pytest.mark.parametrize("kind", ["array", "tensor", "masked"])
def test_an_array_of_numbers_has_the_columns_of_the_schema_in_their_order(kind):
    values = np.column_stack((STRUCTURED["age"], STRUCTURED["rate"]))
    if kind == "tensor":
        values = pytest.importorskip("torch").from_numpy(values)
    if kind == "masked":
        values = np.ma.masked_invalid(values).filled(0.1)
        values = np.ma.array(
            values, mask=[[False, False], [False, True], [False, False]]
        )
    assert encode(values, NUMBERS) == encode(
        pa.table({name: CELLS[name] for name in NUMBERS.names}), NUMBERS
    )
    sampled = native_form(values, NUMBERS)(pa.table({"age": [1], "rate": [None]}, schema=pa.schema(
        [("age", pa.int64()), ("rate", pa.float64())]
    )))  # fmt: skip
    assert sampled.dtype == np.float64
    assert np.isnan(sampled[0, 1])


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (
            datasets.DatasetDict({"train": datasets.Dataset.from_dict(CELLS)}),
            r"data\['train'\]",
        ),
        (pa.table(CELLS).to_batches()[0], "Table.from_batches"),
        (pa.table(CELLS).to_reader(), "data.read_all()"),
        (pl.Series([1]), "data.to_frame()"),
        (pd.Series([1]), "data.to_frame()"),
        ([CELLS], "pyarrow.Table.from_pylist"),
        (([[1, 2]], [1]), r"pandas.DataFrame\(X"),
        (object(), "convert it"),
    ],
)
def test_what_is_no_table_is_refused_with_the_line_that_makes_one(data, line):
    with pytest.raises(DataError, match=rf"found {type(data).__name__}; .*{line}"):
        TableSource(data, SCHEMA)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (CELLS | {"age": [31, SECRET, 44]}, "'age': is a list of mixed"),
        (CELLS | {"age": [31, 58]}, "'age': is shorter"),
        (CELLS | {"rate": np.zeros((3, 2))}, "'rate': is a ndarray"),
        (CELLS | {"rate": np.zeros(3, dtype=complex)}, "'rate': is a ndarray"),
        (np.zeros((3, 5)), r"\(3, 5\): expected \(records, 4\)"),
        (np.zeros((3, 4, 1)), r"\(3, 4, 1\): expected \(records, 4\)"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name_and_quote_nothing(data, message):
    with pytest.raises(DataError, match=message) as caught:
        encode(data)
    assert SECRET not in str(caught.value)


def test_a_lazy_frame_that_fails_on_its_way_is_refused_and_prints_nothing(capfd):
    """Polars' own `collect_batches` ends early without an error, and prints the value that stopped it."""
    many = pl.LazyFrame({"age": [*["1"] * 50_000, SECRET]}).with_columns(
        pl.col("age").str.to_integer()
    )
    schema = Schema((integer("age", 0, 99),))
    with pytest.raises(
        DataError,
        match=r"LazyFrame: cannot be read to its end; data = data.collect\(\)",
    ) as caught:
        list(TableSource(many, schema, batch_rows=1000).batches())
    assert caught.value.__context__ is None
    assert SECRET not in "".join(capfd.readouterr())
    with pytest.raises(DataError, match="cannot be computed"):
        TableSource(pl.LazyFrame({"age": [1]}).select(pl.col("nobody")), schema)


# Columns of Python objects: one record must not change what the others become.

EVENING = dt.datetime(2020, 1, 1, 18)
MOMENTS = Schema(
    (Datetime(name="t", lower=dt.datetime(2019, 1, 1), upper=dt.datetime(2021, 1, 1)),)
)
OBJECTS_NUMBERS = Schema((continuous("x", 0.0, 10.0, missing=True),))


def objects_encode(cells, schema):
    frame = pd.DataFrame({schema.names[0]: pd.Series(cells, dtype=object)})
    return EncodedTable.concatenate(list(TableSource(frame, schema).batches())).numeric[
        :, 0
    ]


OTHERS = [
    1,
    True,
    "2.5",
    Decimal("2.5"),
    np.float16(0.5),
    np.int8(3),
    None,
    float("nan"),
]
BESIDE = [
    (cell, other, OBJECTS_NUMBERS)
    for cell in (0.1, np.float16(0.1), np.float32(0.1))
    for other in OTHERS
]


@pytest.mark.parametrize(
    ("cell", "other", "schema"), [*BESIDE, (EVENING, dt.date(2020, 1, 1), MOMENTS)]
)
def test_a_cell_is_the_same_beside_any_other_object(cell, other, schema):
    for index, cells in enumerate(([cell, other], [other, cell])):
        try:
            beside = objects_encode(cells, schema)[index]
        except DataError as error:
            assert "mixed" in str(error)  # refused, which says nothing about the others
        else:
            assert objects_encode([cell], schema)[0] == beside


MIXED = [
    [1, 2.5],
    ["a", 1],
    [np.datetime64("2020-01-01"), np.int8(1)],
    [object()],
    [b"x"],
    [1 + 2j],
]


@pytest.mark.parametrize(
    "cells",
    [*MIXED, [EVENING, EVENING.replace(tzinfo=dt.UTC)], [dt.date(2020, 1, 1), EVENING]],
)
def test_mixed_and_unknown_objects_are_refused(cells):
    with pytest.raises(MixedObjects):
        objects_to_arrow(cells)


def test_objects_of_one_type_become_what_they_say():
    assert objects_to_arrow(["a", None, float("nan"), pd.NA]).to_pylist() == [
        "a",
        None,
        None,
        None,
    ]
    assert objects_to_arrow([2**70, -(2**70), np.int8(3)]).to_pylist() == [
        2**63 - 1,
        -(2**63),
        3,
    ]
    assert objects_to_arrow([Decimal("1.50"), Decimal("1e3")]).to_pylist() == [
        "1.50",
        "1E+3",
    ]
    assert objects_to_arrow([pd.Timestamp(EVENING), EVENING, pd.NaT]).to_pylist() == [
        EVENING,
        EVENING,
        None,
    ]
    assert objects_to_arrow([True, np.bool_(False)]).to_pylist() == [True, False]
    assert objects_to_arrow([]).to_pylist() == []
    assert objects_to_arrow([None, pd.NaT]).null_count == 2


def test_a_refused_cell_does_not_travel_in_the_error():
    with pytest.raises(DataError) as caught:
        objects_encode(["0.1", "secret diagnosis"], OBJECTS_NUMBERS)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
