"""What a cell is read as does not depend on the cells that are read together with it."""

from datetime import date
from functools import partial

import pyarrow as pa
import pytest

from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    Date,
    Decimal,
    Integer,
    Ordinal,
)
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.columns import Problem
from noisegate.schema.encode import read_cells
from noisegate.schema.parsing import (
    parse_booleans,
    parse_dates,
    parse_floats,
    parse_integers,
    parse_timestamps,
)

NUMBERS = [
    "1",
    "+1.5",
    "-1",
    "1.",
    "1.e5",
    ".5",
    "5e",
    "1e400",
    "-1e400",
    "1e-400",
    "1e+5",
    "+.5e-3",
    "1.5",
    "1e0",
]
NUMBERS += [
    "nan",
    "NaN",
    "nan(x)",
    "-nan",
    "+nan",
    "inf",
    "+inf",
    "-Infinity",
    "INFINITY",
    "infinit",
    "0x1A",
    "0x1p3",
]
NUMBERS += [
    "1_0",
    "1d5",
    "٣",
    "--1",
    "+-1",
    "1,5",
    "00",
    "-0",
    "1f",
    "",
    "1 ",
    "1\n",
    "1\x00",
    "0" * 400 + "1",
]
NUMBERS += [
    f"{sign}{2**63 + more}{end}"
    for sign in ("", "-", "+")
    for more in (-1, 0)
    for end in ("", ".0")
]
NUMBERS += [
    "1e18",
    "9007199254740993",
    "9007199254740993.0",
    "1" + "0" * 400,
    "-" + "9" * 19,
]
DAYS = [
    "2020-01-01",
    "2020-02-30",
    "2020-13-01",
    "0000-01-01",
    "0001-01-01",
    "9999-12-31",
    "20200101",
    "",
]
TIMES = [
    "T10:00:00",
    "T10:00",
    " 23:59:59.1",
    "T10",
    "T24:00",
    "T23:59:59.999999",
    "T10:00:00.123456789",
    "T10:00:00.",
]
ZONES = ["Z", "+05:30", "+0530", "-23:59", "+24:00", "+00:60", "+99:99"]
MOMENTS = [
    *DAYS,
    *(DAYS[0] + time for time in TIMES),
    *(f"{DAYS[0]}T10:00{zone}" for zone in ZONES),
]
MOMENTS += [
    "0001-01-01T00:00+05:00",
    "9999-12-31T23:59-05:00",
    "1969-12-31T23:59:59.5",
    "2020-01-01T10:00:00.12345Z",
]
TRUTHS = ["true", "TRUE", "yes", "1", "1.0", "0", "no", "x", "True ", "01", "ＴＲＵＥ"]

CASES = {
    "floats": (parse_floats, NUMBERS),
    "integers": (parse_integers, NUMBERS),
    "days": (parse_dates, MOMENTS),
    "moments": (partial(parse_timestamps, aware=False), MOMENTS),
    "moments with a zone": (partial(parse_timestamps, aware=True), MOMENTS),
    "booleans": (parse_booleans, TRUTHS),
}


def parsed_or_refusal(parse, cells):
    parsed = parse(pa.array(cells, pa.string()))
    rows = zip(parsed.numbers.tolist(), parsed.is_bad, parsed.is_missing, strict=True)
    return [
        "bad" if bad else "missing" if missing else repr(number)
        for number, bad, missing in rows
    ]


@pytest.mark.parametrize("case", CASES)
def test_a_cell_is_read_as_when_it_stands_alone(case):
    parse, cells = CASES[case]
    alone = [parsed_or_refusal(parse, [cell])[0] for cell in cells]
    assert len(set(alone)) > 2
    for i, cell in enumerate(cells):
        for j in range(i):
            assert parsed_or_refusal(parse, [cell, cells[j]]) == [alone[i], alone[j]], (
                cell,
                cells[j],
            )
    assert parsed_or_refusal(parse, cells) == alone


COLUMNS = [
    Integer(name="n", lower=-9, upper=99, missing=True),
    Continuous(name="x", lower=-9.0, upper=99.0, missing=True),
    Decimal(name="d", lower=-9, upper=99, step=0.01, missing=True),
    Categorical(name="c", levels=("1", "01", "a"), other="a", missing=True),
    Ordinal(name="o", levels=("-2", "1", "+1.5")),
    Ordinal(name="w", levels=(1, 2, 3)),
    Boolean(name="b"),
    Continuous(name="f", lower=-9, upper=9999, missing=True, format="#.##0,0 €"),
    Date(
        name="t",
        lower=date(1970, 1, 1),
        upper=date(2020, 1, 1),
        missing=True,
        format="%Y%m%d",
    ),
]
TOKENS = [("", "?", "NA"), ("", "99", "-1", "nan", "0x1A", "1.5", "9007199254740993")]
CELLS = [
    *NUMBERS,
    "a",
    "NA",
    "?",
    "99",
    "099",
    "99.0",
    *(f"{blank}1" for blank in TEXT_PADDING),
    "1\v",
    "nan ",
    None,
]
CELLS += ["1.234", "1.234,5 €", "(1,5)", "20200101", "2020-01-01"]


def read(column, array, tokens):
    try:
        numbers, present = read_cells(column, array, pa.array(tokens))
    except Problem as problem:
        return problem.row, problem.message, problem.value
    return numbers.tobytes(), numbers.dtype.kind, present.tolist()


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.kind)
def test_text_that_is_read_at_once_says_what_it_says_cell_by_cell(column, tokens):
    for cell in CELLS:
        for cells in ([cell], ["1", cell]):
            at_once = pa.array(["no part of it", *cells], pa.string())[1:]
            # Long strings go the strict way, in which blanks and tokens are looked for in each cell.
            assert read(column, at_once, tokens) == read(
                column, at_once.cast(pa.large_string()), tokens
            ), cells
