"""Parts of a file hold all its records, in order, each once, and their errors name the same places."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.csv import write_csv
from tests.shared import image_files

from noisegate.errors import DataError, OptionError
from noisegate.schema import Categorical, EncodedTable, Integer, Schema, pixel_schema
from noisegate.sources import TableSource
from noisegate.sources.tables.csv_file import BOM, CsvFile
from noisegate.sources.tables.parts import ParquetFile
from noisegate.sources.units import UnitLimit
from noisegate_images.sources import images
from noisegate_images.sources.images import ImageSource

# Cells as they are written: quotes, line ends and commas inside them, what looks like a byte order mark, and no ASCII.
CELLS = [
    "1",
    "",
    '""',
    '"a,b"',
    '""""',
    '"two\r\nlines"',
    '"\n\n"',
    '"\r"',
    '"say ""no"""',
    "\ufeffmark",
    "ü€😀",
]
ENDS = ["\n", "\r\n", "\r", "\n\n", "\r\n\r\n"]


def cells(file):
    found = [pa.table(dict(arrays)) for arrays in file.batches(["u", "v"], 1)]
    return [
        tuple(record.values())
        for table in found
        for record in table.select(["u", "v"]).to_pylist()
    ]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(CELLS), st.sampled_from(CELLS), st.sampled_from(ENDS)
        ),
        max_size=12,
    ),
    st.sampled_from([b"", BOM, b"\n\r\n", BOM + b"\r\r"]),
    st.booleans(),
    st.integers(1, 60),
)
def test_parts_of_a_csv_file_are_its_records(
    tmp_path_factory, records, mark, ended, size
):
    body = "".join(f"{one},{other}{end}" for one, other, end in records)
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(
        mark + b"u,v\n" + (body if ended else body.rstrip("\r\n")).encode()
    )
    whole, parts = CsvFile(path), list(CsvFile(path).split_into_parts(size))
    assert [row for part in parts for row in cells(part)] == cells(whole)
    edges = [edge for part in parts for edge in (part.start, part.stop)]
    assert edges == [
        0,
        *(edge for edge in edges[1:-1:2] for _ in range(2)),
        None,
    ]  # without gap or overlap
    assert all(part.stop - part.start >= size for part in parts[:-1])
    # A record's place in its part says what its place in the file says.
    rows = [(part, row) for part in parts for row in range(len(cells(part)))]
    assert [part.locate(row) for part, row in rows] == [
        whole.locate(row) for row in range(len(rows))
    ]


def test_a_file_is_cut_into_as_many_parts_as_it_has_records_and_no_more(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("u,v\n1,2\n3,4\n")
    parts = list(CsvFile(path).split_into_parts(1))
    assert [(part.start, part.stop) for part in parts] == [(0, 4), (4, 8), (8, None)]
    assert [cells(part) for part in parts] == [[], [("1", "2")], [("3", "4")]]


def test_a_header_that_is_shorter_than_a_byte_order_mark_may_be_a_part(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("u\n12\n34\n")
    parts = list(CsvFile(path).split_into_parts(1))
    assert [(part.start, part.stop) for part in parts] == [(0, 2), (2, 5), (5, None)]
    columns = [batch["u"] for part in parts for batch in part.batches(["u"], 9)]
    assert [column.to_pylist() for column in columns] == [[], ["12"], ["34"]]


@pytest.mark.parametrize("rows", [0, 1, 300])
@pytest.mark.parametrize("size", [1, 2000, 1 << 30])
def test_parts_of_a_parquet_file_are_its_records(rows, size, people, tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(people.slice(0, rows), path, row_group_size=37)
    parts = list(ParquetFile(path).split_into_parts(size))
    found = [
        [age for batch in part.batches(["age"], 10) for age in batch["age"].to_pylist()]
        for part in parts
    ]
    assert [age for ages in found for age in ages] == people["age"].to_pylist()[:rows]
    assert len(parts) == {1: max(-(-rows // 37), 1), 1 << 30: 1}.get(size, len(parts))
    places = [
        part.locate(row)
        for part, ages in zip(parts, found, strict=True)
        for row in range(len(ages))
    ]
    assert places == [f"x.parquet, record {row + 1}" for row in range(rows)]


def lines(values):
    return "".join(f"{value}\n" for value in values)


AGES = Schema((Integer(name="age", lower=0, upper=200),))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_parts_of_a_folder_are_its_files_cut(kind, tmp_path):
    for name, values in (("a", range(50)), ("b", [77]), ("c", range(100, 180))):
        if kind == "csv":
            (tmp_path / f"{name}.csv").write_text("age\n" + lines(values))
        else:
            pq.write_table(
                pa.table({"age": list(values)}),
                tmp_path / f"{name}.parquet",
                row_group_size=8,
            )
    source = TableSource(tmp_path, AGES)
    parts = pickle.loads(pickle.dumps(list(source.split_into_parts(64))))
    assert len(parts) > 3 + len(range(100, 180)) // 32
    batches = [read() for part in parts for read in part.batch_readers()]
    together = EncodedTable.concatenate(batches)
    assert (
        together.numeric.tobytes()
        == EncodedTable.concatenate(list(source.batches())).numeric.tobytes()
    )
    assert len(pickle.dumps(parts[-1])) < 5000  # a description, and no records


def message(read):
    with pytest.raises(DataError) as caught:
        list(read())
    return str(caught.value)


BROKEN = {
    "a value that the schema does not know": b"SECRET,x\n",
    "a field too many": b"1,2,SECRET\n",
    "a quote astray": b'1,a"SECRET\n',
    "a quote that is never closed": b'1,"SECRET\n',
    "not UTF-8": b"1,\xff\n",
    "a long cell": b"1," + b"x" * 70000 + b"\n",
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("before", [0, 40])
def test_errors_in_a_part_name_the_line_of_the_file(case, before, tmp_path):
    schema = Schema(
        (
            Integer(name="age", lower=0, upper=90),
            Categorical(name="v", levels=("x", "x\r\nx")),
        )
    )
    good = b'1,"x\r\nx"\r\n' * before
    (tmp_path / "x.csv").write_bytes(b"age,v\r\n" + good + BROKEN[case] + good)
    source = TableSource(tmp_path / "x.csv", schema)
    whole = message(lambda: [read() for read in source.batch_readers()])
    assert (
        message(
            lambda: [
                read()
                for part in source.split_into_parts(50)
                for read in part.batch_readers()
            ]
        )
        == whole
    )
    assert "x.csv" in whole and "SECRET" not in whole


def test_a_file_that_was_written_to_is_not_read_by_its_old_parts(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("age\n" + lines(range(40)))
    *_, last = TableSource(path, AGES).split_into_parts(16)
    path.write_text("age\n" + lines(range(1, 41)))
    assert "written to" in message(last.batch_readers)
    assert (
        len(list(TableSource(path, AGES).split_into_parts(16))) > 4
    )  # nor are they remembered
    path.unlink()
    assert "cannot be read" in message(last.batch_readers)


def test_an_empty_source_is_refused_as_a_whole_and_not_in_parts(tmp_path):
    (tmp_path / "x.csv").write_text("age\n")
    source = TableSource(tmp_path / "x.csv", AGES)
    assert [
        len(read())
        for part in source.split_into_parts(100)
        for read in part.batch_readers()
    ] == [0]
    assert message(source.batch_readers) == str(source.no_records_error())


def test_tables_and_images_in_memory_are_refused_and_so_is_to_skip_some(tmp_path):
    with pytest.raises(OptionError, match="table in memory"):
        list(TableSource(pa.table({"age": [1]}), AGES).split_into_parts(100))
    schema = pixel_schema(5, 4, labels=[0, 1])
    with pytest.raises(OptionError, match="these are in memory"):
        list(
            ImageSource(
                image_files.pixels()[..., 0], pixel_schema(5, 4)
            ).split_into_parts(100)
        )
    folder = image_files.class_folders(
        tmp_path, image_files.pixels(), [0, 1, 0, 1, 1, 1]
    )
    with pytest.raises(OptionError, match=r"^on_error='skip'"):
        list(ImageSource(folder, schema, on_error="skip").split_into_parts(100))


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcde"), st.integers(0, 90)), min_size=1, max_size=40
    ),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(1, 7),
    st.sampled_from(["csv", "parquet"]),
)
def test_shares_of_units_are_the_records_that_one_pass_uses(
    tmp_path_factory, records, contributions, shares, batch, kind
):
    folder = tmp_path_factory.mktemp("units")
    for number, some in enumerate(
        (records[: len(records) // 2], records[len(records) // 2 :])
    ):
        table = pa.table(
            {
                "who": [who for who, _ in some],
                "age": pa.array([age for _, age in some], pa.int64()),
            }
        )
        if kind == "csv":
            write_csv(table, folder / f"{number}.csv")
        else:
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=3)
    limit = UnitLimit(column="who", contributions=contributions)
    source = TableSource(folder, AGES, units=limit, batch_rows=batch)
    used = [
        age for read in source.batch_readers() for age in read().numeric[:, 0].tolist()
    ]
    for shared in (
        source.split_into_parts(1, shares),
        source.split_into_shares(shares, splits_batches=True),
    ):
        parts = pickle.loads(pickle.dumps(list(shared)))
        assert len(parts) == shares
        found = [
            age
            for part in parts
            for read in part.batch_readers()
            for age in read().numeric[:, 0].tolist()
        ]
        assert sorted(found) == sorted(used)
    assert len(used) == sum(
        min(contributions, sum(who == one for one, _ in records)) for who in "abcde"
    )


def image_places(kind, root):
    """Images of a kind below a folder, the path that is given, and their schema."""
    images, labels = image_files.pixels(30), [number % 3 for number in range(30)]
    contents = [image_files.encoded(image_files.picture(image)) for image in images]
    schema = pixel_schema(5, 4, labels=[0, 1, 2])
    if kind == "folder":
        return image_files.class_folders(root / "x", images, labels), schema
    if kind == "npz":
        np.savez(root / "x.npz", images=images[..., 0], labels=np.array(labels))
        return root / "x.npz", schema
    if kind == "parquet":
        (root / "x").mkdir()
        for number in range(2):
            some = slice(15 * number, 15 * number + 15)
            who = [f"w{place % 7}" for place in range(30)[some]]
            image_files.parquet(
                root / "x" / f"{number}.parquet",
                contents[some],
                labels[some],
                rows=4,
                who=who,
            )
        return root / "x", schema
    image_files.class_folders(root / "x", images, ["all"] * 30)
    names = [
        f"all/SECRET-{number:03}.png,{label},w{number % 7}"
        for number, label in enumerate(labels)
    ]
    (root / "x" / "labels.csv").write_text("\n".join(["file,label,who", *names]))
    return root / "x", schema


def pictures(parts):
    read = [records() for part in parts for records in part.batch_readers()]
    return sorted(
        (code, pixels.tobytes())
        for one in read
        for pixels, code in zip(one.pixels, one.codes[:, 0], strict=True)
    )


@pytest.mark.parametrize(
    ("kind", "contributions"),
    [
        ("folder", None),
        ("npz", None),
        ("parquet", None),
        ("parquet", 2),
        ("list", None),
        ("list", 2),
    ],
)
def test_parts_of_images_are_all_images(kind, contributions, tmp_path, monkeypatch):
    path, schema = image_places(kind, tmp_path)
    units = (
        UnitLimit(column="who", contributions=contributions) if contributions else None
    )
    monkeypatch.chdir(tmp_path)
    source = ImageSource(path.relative_to(tmp_path), schema, units=units, batch_rows=2)
    parts = pickle.loads(pickle.dumps(list(source.split_into_parts(200, 3))))
    monkeypatch.chdir(tmp_path.parent)  # a worker is elsewhere
    whole = ImageSource(path, schema, units=units)
    assert pictures(parts) == pictures([whole])
    assert len(pictures(parts)) == (14 if contributions else 30)
    assert (
        len(parts) > 3
        if (kind, contributions) == ("parquet", None)
        else len(parts) == 3
    )
    sizes = [sum(len(read()) for read in part.batch_readers()) for part in parts]
    assert max(sizes) < 20
    assert all(len(pickle.dumps(part)) < 10_000 for part in parts)


def test_thinned_shares_are_equal_and_decode_no_picture_of_another(
    tmp_path, monkeypatch
):
    path, schema = image_places("folder", tmp_path)
    right, decoded = images.decode_picture, []
    monkeypatch.setattr(
        images, "decode_picture", lambda *told: decoded.append(1) or right(*told)
    )
    source = ImageSource(path, schema, batch_rows=12)
    shares = [
        [len(read()) for read in part.batch_readers()]
        for part in source.split_into_shares(4, splits_batches=True)
    ]
    assert shares == [[3, 3, 2], [3, 3, 2], [3, 3, 1], [3, 3, 1]] and len(decoded) == 30
    assert pictures(source.split_into_shares(4, splits_batches=True)) == pictures(
        [source]
    )


@pytest.mark.parametrize("kind", ["folder", "list"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_folder_of_images_that_was_written_to_is_not_read_by_its_old_parts(
    kind, when, tmp_path
):
    path, schema = image_places(kind, tmp_path)
    first, *_ = ImageSource(path, schema, batch_rows=2).split_into_parts(200, 3)

    def write():
        if kind == "folder":
            (path / "1" / "new.png").write_bytes(
                (path / "1" / "SECRET-001.png").read_bytes()
            )
        else:
            (path / "labels.csv").write_text("file,label\n")

    def read():
        if when == "before":
            write()
        for number, _ in enumerate(first.batch_readers()):
            if number == 0 and when == "meanwhile":
                write()

    with pytest.raises(DataError, match="was written to"):
        read()
