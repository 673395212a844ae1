"""What a cell says is told by its own record: not by where in the file it stands, nor by what stands beside it."""

import csv
import io
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisegate.errors import DataError
from noisegate.schema import EncodedTable
from noisegate.sources import TableSource
from noisegate.sources.tables import csv_file
from noisegate.sources.tables.csv_file import (
    BOM,
    MAX_CELL_BYTES,
    CsvFile,
    RecordProblem,
    read_whole_records,
)
from noisegate.sources.units import UnitLimit

ENDS = {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}
SIZES = [1, 2, 3, 5, 8, 13, 29, 64, 1 << 20]

# Cells of two columns, as they are and as they are written.
CELLS = [
    ("1", "1"),
    ("a", "a"),
    ("", ""),
    ("", '""'),
    ("two\r\nlines", '"two\r\nlines"'),
    ("\r", '"\r"'),
    ("\n\n", '"\n\n"'),
    ("\r\n\r\n", '"\r\n\r\n"'),
    ("a,b", '"a,b"'),
    ('"', '""""'),
    ('""\r\n"', '"""""\r\n"""'),
    ('say "no"', '"say ""no"""'),
    ("\ufeffmark", "\ufeffmark"),
    ("\ufeff", '"\ufeff"'),
    ("ü€😀", "ü€😀"),
    ("\x00", "\x00"),
]


def written(records, end="\n"):
    return end.join(
        ["u,v", *(f"{one[1]},{other[1]}" for one, other in records)]
    ).encode()


def read(path, monkeypatch=None, size=1 << 20):
    if monkeypatch is not None:
        monkeypatch.setattr(csv_file, "_PIECE_BYTES", size)
    tables = [pa.table(dict(arrays)) for arrays in CsvFile(path).batches(["u", "v"], 1)]
    return [
        tuple(record.values())
        for table in tables
        for record in table.select(["u", "v"]).to_pylist()
    ]


def by_python(content):
    rows = [
        row
        for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        if row
    ]
    return [tuple(row) for row in rows[1:]]


def some_pairs():
    """Records in which each cell stands before and behind some others."""
    return [
        (CELLS[i], CELLS[(i + step) % len(CELLS)])
        for step in (0, 1, 6)
        for i in range(len(CELLS))
    ]


@pytest.mark.parametrize("last", [True, False], ids=["with a last line end", "without"])
@pytest.mark.parametrize("mark", [b"", BOM], ids=["plain", "BOM"])
@pytest.mark.parametrize("end", ENDS)
def test_pieces_of_any_size_give_the_records_that_python_reads(
    end, mark, last, tmp_path, monkeypatch
):
    content = (
        mark + written(some_pairs(), ENDS[end]) + (ENDS[end].encode() if last else b"")
    )
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    expected = by_python(content)
    assert expected == [(one[0], other[0]) for one, other in some_pairs()]
    for size in SIZES:
        assert read(path, monkeypatch, size) == expected, size


def test_mixed_line_ends_and_empty_lines_between_records(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_bytes(
        b'\n\r\n"u",v\r\r\n\n1,"a\r"\r\n\r\r2,"\n\r\nb"\n\n\n3,\r4,c\r\n\n'
    )
    for size in SIZES:
        assert read(path, monkeypatch, size) == [
            ("1", "a\r"),
            ("2", "\n\r\nb"),
            ("3", ""),
            ("4", "c"),
        ], size


@given(
    st.lists(
        st.tuples(
            st.sampled_from(CELLS),
            st.sampled_from(CELLS),
            st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
        )
    ),
    st.data(),
)
def test_without_one_record_the_others_are_as_they_were(records, data):
    def pieces(chosen):
        body = "".join(f"{one[1]},{other[1]}{end}" for one, other, end in chosen)
        return [
            piece
            for _, piece in read_whole_records(
                io.BytesIO(b"u,v\n" + body.encode()), size
            )
        ]

    size = data.draw(st.integers(1, 80))
    gone = data.draw(st.integers(0, len(records)))
    less = records[:gone] + records[gone + 1 :]
    for chosen in (records, less):
        tables_read = pieces(chosen)
        assert by_python(b"".join(tables_read)) == [
            (one[0], other[0]) for one, other, _ in chosen
        ]
        # Each piece is whole: read alone, it has the records that it adds.
        alone = [
            row
            for piece in tables_read
            for row in csv.reader(io.StringIO(piece.decode(), newline=""))
            if row
        ]
        assert [tuple(row) for row in alone[1:]] == [
            (one[0], other[0]) for one, other, _ in chosen
        ]


# One column of each kind; in quotes, where text may hold line ends, each cell has some.
KINDS = ("age", "rate", "work", "grade", "member", "born", "seen")
LINES = [
    '39,0.5,Private,1,yes,1999-01-31,2001-02-03T04:05:06\r\n',
    '"\r\n39","\r\n1e-1\r\n"," Self, own\r\n","2\r\n","no\r\n","1999-01-31\r\n","2001-02-03 04:05\r\n"\r\n',
    ',"?\r\n",nobody,3,,2010-10-10,2020-12-12\r\n',
    '"+17.0\r\n",inf,"other\r\n\r\n",3.0,TRUE,"\r\n2010-10-10",1999-12-31T23:59:59.999999\r\n',
]  # fmt: skip


def shifted(path, k, extra=""):
    """A file whose records, but for the first, stand k bytes further on."""
    first = f'{extra}"{" " * k}40",1,Private,1,yes,2000-01-01,2000-01-01\n'
    names = ("unit," if extra else "") + ",".join(KINDS)
    body = "".join(
        f'"{i % 3}\r\n",{line}' if extra else line for i, line in enumerate(LINES * 2)
    )
    path.write_bytes(f"{names}\n{first}{body}".encode())
    return path


def test_every_kind_of_column_reads_the_same_bits_wherever_a_cell_stands(
    schema, tmp_path, monkeypatch
):
    def bits():
        table = EncodedTable.concatenate(
            list(TableSource(path, schema).batches())
        ).rows(slice(1, None))
        return table.numeric.tobytes(), table.codes.tobytes()

    path = shifted(tmp_path / "x.csv", 0)
    expected = bits()
    monkeypatch.setattr(csv_file, "_PIECE_BYTES", 30)
    for k in range(30):
        shifted(path, k)
        assert bits() == expected, k


def test_units_are_counted_the_same_wherever_they_stand(schema, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "_PIECE_BYTES", 30)
    for k in range(30):
        path = shifted(tmp_path / "x.csv", k, extra='"someone, else\r\n",')
        source = TableSource(
            path, schema, units=UnitLimit(column="unit", contributions=1)
        )
        assert sum(len(batch) for batch in source.batches()) == 4, k  # one of each unit


ASTRAY = "neither begins nor ends a cell"
OPEN = "not closed before the file ends"
LATE = "not closed within 65,536 bytes"
REFUSED = {
    "a quote inside a cell": ('u,v\n1,5" pipe SECRET\n2,3\n', 2, ASTRAY),
    "text behind a quote": ('u,v\n1,2\n"a"SECRET,3\n', 3, ASTRAY),
    "a blank before a quote": ('u,v\r\n1, "SECRET, b"\r\n', 2, ASTRAY),
    "a quote escaped by a backslash": ('u,v\n1,"a \\"SECRET\\" b"\n', 2, ASTRAY),
    "a quote that is never closed": ('u,v\n1,2\r\n3,"SECRET\n' + "4,5\n" * 40, 3, OPEN),
    "never closed at the end": ('u,v\n1,"', 2, OPEN),
    "never closed behind doubled ones": ('u,v\n1,"SECRET""x""\n4,5\n', 2, OPEN),
    "closed too late": (
        'u,v\n1,"SECRET\n' + "4,5\n" * (MAX_CELL_BYTES // 4) + '",6\n',
        2,
        LATE,
    ),
    "doubled quotes for too long": (
        'u,v\n1,"' + '""' * (MAX_CELL_BYTES // 2) + '"\n',
        2,
        LATE,
    ),
    "a long cell": (
        "u,v\n1,2\n3,S" + "S" * MAX_CELL_BYTES + "\n",
        3,
        "column 'v': the cell is longer than 65,536 bytes",
    ),
}


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("case", REFUSED)
def test_what_could_swallow_records_is_refused_with_its_line(
    case, size, tmp_path, monkeypatch
):
    content, line, message = REFUSED[case]
    if len(content) > 1000 and size < 100:
        size *= 1000
    path = tmp_path / "x.csv"
    path.write_bytes(content.encode())
    with pytest.raises(
        DataError, match=rf"^x\.csv, line {line}(:|, ).*{message}"
    ) as caught:
        read(path, monkeypatch, size)
    assert "SECRET" not in str(caught.value)


def test_a_file_without_line_ends_is_not_taken_into_memory(monkeypatch):
    class Endless(io.RawIOBase):
        taken = 0

        def read(self, size=-1):
            self.taken += size
            return b"a," * (size // 2) + b"a" * (size % 2)

        def tell(self):
            return self.taken

    stream = Endless()
    monkeypatch.setattr("noisegate.sources.tables.csv_file.MAX_RECORD_BYTES", 1000)
    with pytest.raises(RecordProblem, match=re.escape("longer than 1,000 bytes")):
        list(read_whole_records(stream, 64))
    assert stream.taken <= 1100


def test_the_length_of_a_record_does_not_count_from_the_end_of_a_piece(monkeypatch):
    monkeypatch.setattr("noisegate.sources.tables.csv_file.MAX_RECORD_BYTES", 1000)
    fits = b"a," * 499 + b"a\n"
    longer = b"a," * 499 + b"ab\n"
    for before in range(0, 70, 7):
        content = b"b" * before + b"\n"
        assert b"".join(
            piece for _, piece in read_whole_records(io.BytesIO(content + fits), 64)
        ).endswith(fits)
        with pytest.raises(RecordProblem):
            list(read_whole_records(io.BytesIO(content + longer), 64))
