"""Every kind of table in memory gives the same records, bit for bit; what is none is refused with the line to write."""

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.data import TableSource
from noisegate.discovery.forms import native_form
from noisegate.errors import DataError, installed
from noisegate.schema import EncodedTable, Schema

SECRET = "Ms Q. Zebra"
SCHEMA = Schema((integer("age", 0, 99), continuous("rate", missing=True), categorical("work", "ab"), boolean("ill")))
CELLS = {"age": [31, 58, 44], "rate": [0.5, None, 0.25], "work": ["a", "b", "a"], "ill": [True, False, True]}
NUMBERS = Schema((integer("age", 0, 99), continuous("rate", missing=True)))
DTYPE = [("age", np.int32), ("rate", np.float64), ("work", "U1"), ("ill", np.bool_)]
STRUCTURED = np.array([(31, 0.5, "a", True), (58, np.nan, "b", False), (44, 0.25, "a", True)], dtype=DTYPE)


def encode(data, schema=SCHEMA, **options):
    found = EncodedTable.concatenate(list(TableSource(data, schema, batch_rows=2, **options).batches()))
    return found.numeric.tobytes(), found.codes.tobytes()


def arrays():
    return {name: STRUCTURED[name] for name in CELLS}


def tensors():
    import torch

    return arrays() | {"age": torch.tensor(CELLS["age"]), "ill": torch.tensor(CELLS["ill"])}


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
    "array of objects": lambda: np.array(list(zip(*CELLS.values(), strict=True)), dtype=object),
    "structured array": lambda: STRUCTURED,
    "structured array in another order": lambda: STRUCTURED[["work", "ill", "rate", "age"]],
    "lazy frame": lambda: pl.LazyFrame(CELLS),
    "Hugging Face": lambda: datasets.Dataset.from_dict(CELLS),
    "Hugging Face, of another format": lambda: datasets.Dataset.from_dict(CELLS).with_format("numpy"),
    "Hugging Face, shuffled and back": lambda: datasets.Dataset.from_dict(CELLS).select([2, 0, 1]).select([1, 2, 0]),
    "Hugging Face, iterable": lambda: datasets.Dataset.from_dict(CELLS).to_iterable_dataset(),
}
SAMPLED = dict(dict=dict, array=np.ndarray, structured=np.recarray, lazy=pl.DataFrame, Hugging=datasets.Dataset)


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
        values = np.ma.array(values, mask=[[False, False], [False, True], [False, False]])
    assert encode(values, NUMBERS) == encode(pa.table({name: CELLS[name] for name in NUMBERS.names}), NUMBERS)
    sampled = native_form(values, NUMBERS)(pa.table({"age": [1], "rate": [None]}, schema=pa.schema(
        [("age", pa.int64()), ("rate", pa.float64())]
    )))  # fmt: skip
    assert sampled.dtype == np.float64 and np.isnan(sampled[0, 1])


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (datasets.DatasetDict({"train": datasets.Dataset.from_dict(CELLS)}), r"data\['train'\]"),
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
    ("data", "says"),
    [
        (CELLS | {"age": [31, SECRET, 44]}, "'age': is a list of mixed"),
        (CELLS | {"age": [31, 58]}, "'age': is shorter"),
        (CELLS | {"rate": np.zeros((3, 2))}, "'rate': is a ndarray"),
        (CELLS | {"rate": np.zeros(3, dtype=complex)}, "'rate': is a ndarray"),
        (np.zeros((3, 5)), r"\(3, 5\): expected \(records, 4\)"),
        (np.zeros((3, 4, 1)), r"\(3, 4, 1\): expected \(records, 4\)"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name_and_quote_nothing(data, says):
    with pytest.raises(DataError, match=says) as caught:
        encode(data)
    assert SECRET not in str(caught.value)


def test_a_lazy_frame_that_fails_on_its_way_is_refused_and_prints_nothing(capfd):
    """Polars' own `collect_batches` ends early without an error, and prints the value that stopped it."""
    many = pl.LazyFrame({"age": [*["1"] * 50_000, SECRET]}).with_columns(pl.col("age").str.to_integer())
    schema = Schema((integer("age", 0, 99),))
    with pytest.raises(DataError, match=r"LazyFrame: cannot be read to its end; data = data.collect\(\)") as caught:
        list(TableSource(many, schema, batch_rows=1000).batches())
    assert caught.value.__context__ is None and SECRET not in "".join(capfd.readouterr())
    with pytest.raises(DataError, match="cannot be computed"):
        TableSource(pl.LazyFrame({"age": [1]}).select(pl.col("nobody")), schema)
