"""A public data set that holds a file of the private one is found, and one that does not is not."""

import os

import pandas as pd
import pyarrow as pa
import pytest

from noisegate.errors import DataError
from noisegate.sources.overlap import check_apart, digest_of


@pytest.fixture
def private(tmp_path):
    (tmp_path / "private").mkdir()
    for name in "abc":
        (tmp_path / "private" / f"{name}.png").write_bytes(f"picture {name}".encode())
    return tmp_path / "private"


def public(tmp_path, **files):
    folder = tmp_path / "public"
    (folder / "inner").mkdir(parents=True)
    for name, content in files.items():
        (folder / "inner" / f"{name}.png").write_bytes(content)
    return folder


def test_data_sets_with_different_files_are_apart(private, tmp_path):
    # The same size and the same names are no sign of the same contents.
    check_apart(private, public(tmp_path, a=b"picture x", b=b"another"))
    check_apart(str(private / "a.png"), private / "b.png")


@pytest.mark.parametrize(
    "kind", ["copy", "hard link", "symbolic link", "the folder", "one file of it"]
)
def test_a_file_of_the_private_data_is_found(private, tmp_path, kind):
    folder = public(tmp_path, other=b"another")
    there = private / "b.png"
    here = folder / "inner" / "z.png"
    if kind == "copy":
        here.write_bytes(there.read_bytes())
    elif kind == "hard link":
        os.link(there, here)
    elif kind == "symbolic link":
        here.symlink_to(there)
    given = {"the folder": private, "one file of it": there}.get(kind, folder)
    with pytest.raises(
        DataError,
        match=r"is a file of the private data.*no private record.*nothing was spent",
    ) as error:
        check_apart(private, given)
    assert kind != "copy" or (
        "z.png" in str(error.value) and "b.png" not in str(error.value)
    )


def test_hidden_and_empty_files_are_no_records(private, tmp_path):
    folder = public(tmp_path, other=b"another")
    for name in (".DS_Store", "_SUCCESS", "empty.txt"):
        content = b"" if name == "empty.txt" else b"the same in both"
        (private / name).write_bytes(content)
        (folder / name).write_bytes(content)
    check_apart(private, folder)


def test_tables_in_memory():
    table = pa.table({"x": [1, 2, 3], "y": ["a", "b", None]})
    for same in (table, pa.table(table.to_pydict()), table.to_pandas()):
        with pytest.raises(DataError, match="the public table is the private one"):
            check_apart(
                table
                if not isinstance(same, pd.DataFrame)
                else table.to_pandas().copy(),
                same,
            )
    check_apart(table, table.slice(1))
    check_apart(table, pa.table({"x": [1, 2, 4], "y": ["a", "b", None]}))
    check_apart(table, "somewhere.csv")
    check_apart(table, object())


def test_the_digest_of_a_folder_is_that_of_names_and_contents(private, tmp_path):
    before = digest_of(private)
    assert digest_of(private) == before
    assert digest_of(private / "a.png") != digest_of(private / "b.png")
    (private / ".hidden").write_bytes(b"x")
    assert digest_of(private) == before
    (private / "a.png").rename(private / "d.png")
    assert digest_of(private) != before
