"""What every kind of column keeps to, tried on each of the project's; docs/extending.md lists it as duties."""

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Schema
from noisegate.schema import decode
from noisegate.schema.arrow_types import format_as_text
from noisegate.schema.encode import encode
from noisegate.schema.kinds.registry import COLUMN_KINDS
from noisegate.schema.parsing import UnexpectedType

# The fields of a column of each kind, and text of some of its values, ascending.
COLUMNS = {
    "boolean": ({}, ["false", "true", "Yes"]),
    "categorical": ({"levels": ("a", "b", "c")}, ["a", "b", "c"]),
    "continuous": ({"lower": -1, "upper": 1, "atoms": [0, 9]}, ["-0.5", "0", "9"]),
    "date": (
        {"lower": "1969-12-01", "upper": "2020-12-31", "atoms": ["2000-01-01"]},
        ["1969-12-31", "1970-01-01", "2020-02-29"],
    ),
    "datetime": (
        {"lower": "1969-12-01T00:00:00Z", "upper": "2020-12-31T00:00:00Z"},
        ["1969-12-31T23:59:59Z", "1970-01-01T00:00:00.25Z", "2020-02-29T01:00:00Z"],
    ),
    "decimal": ({"lower": 0, "upper": 9, "step": 0.1}, ["0.3", "1.0", "2.7"]),
    "duration": ({"lower": "0s", "upper": "9 days"}, ["PT5M", "1h 3m", "5 days"]),
    "integer": ({"lower": -5, "upper": 99, "atoms": [999]}, ["-3", "0", "999"]),
    "ordinal": ({"levels": (1, 2, 3)}, ["1", "2", "3"]),
}
NOT_A_VALUE = {"categorical": "z", "ordinal": "7"}


def test_every_kind_is_tried():
    assert set(COLUMNS) == set(COLUMN_KINDS)


@pytest.fixture(params=sorted(COLUMNS))
def column(request):
    fields, _ = COLUMNS[request.param]
    return COLUMN_KINDS[request.param](name="x", missing=True, **fields)


@pytest.fixture
def texts(column):
    _, texts = COLUMNS[column.kind]
    return pa.array(texts)


def encoded(column, cells):
    """Returns what becomes of some cells."""
    records = encode({"x": cells}, Schema([column]))
    return records.numeric[:, 0] if column.numeric else records.codes[:, 0]


def test_a_cell_becomes_the_same_wherever_it_stands(column, texts):
    together = encoded(column, pa.concat_arrays([texts, texts[::-1], texts]))
    alone = [encoded(column, texts.slice(index, 1))[0] for index in range(len(texts))]
    assert together.tolist() == [*alone, *alone[::-1], *alone]
    if column.numeric:
        assert alone == sorted(alone)


def test_a_whole_column_of_text_is_parsed_as_its_cells_are(column, texts):
    quick = column.parse_quickly(texts, pa.array([], pa.string()))
    if quick is not None:
        assert np.array_equal(quick, column.parse_cells(texts).numbers)


def test_what_is_decoded_is_read_again_as_table_and_as_text(column, texts):
    schema = Schema([column])
    cells = pa.concat_arrays([texts, pa.nulls(1, pa.string())])
    records = encode({"x": cells}, schema)
    table = decode(records, schema)
    first = encoded(column, cells)
    decoded = table["x"].combine_chunks()
    assert decoded.null_count == 1
    assert np.array_equal(encoded(column, decoded), first, equal_nan=True)
    written = format_as_text(column, decoded)
    assert written.type == pa.string()
    assert np.array_equal(encoded(column, written), first, equal_nan=True)


def test_files_and_json_hold_the_column(column):
    schema = Schema([column])
    assert Schema.loads(schema.dumps()) == schema
    assert Schema.from_json(schema.to_json()) == schema


def test_values_and_numbers_are_inverse(column):
    if not column.numeric:
        pytest.skip("levels have codes")
    values = sorted([column.lower, column.upper, *column.atoms])
    numbers = [column.to_number(value) for value in values]
    assert numbers == sorted(numbers)
    assert [column.value_of(number) for number in numbers] == values
    assert [column.read_value(value) for value in values] == values
    if column.stepped:
        units = [column.to_units(value) for value in values]
        assert [column.from_units(number) for number in units] == values


def test_what_is_no_value_is_bad_and_not_raised(column):
    cells = pa.array([NOT_A_VALUE.get(column.kind, "some text")])
    assert column.parse_cells(cells).is_bad.tolist() == [True]


def test_a_type_that_holds_no_values_is_refused(column):
    with pytest.raises(UnexpectedType):
        column.parse_cells(pa.array([b"1"], pa.binary()))


def test_words_are_there(column):
    for words in (column.expected_value, column.cell_cure, column.range_text):
        assert isinstance(words, str)
        assert words
    assert column.croissant_type.startswith("sc:")
    assert column.table_schema_type in (
        *("boolean", "date", "datetime", "duration", "integer", "number", "string"),
    )
