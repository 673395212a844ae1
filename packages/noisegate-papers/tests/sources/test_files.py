"""Which files a path stands for: nothing by accident, nothing that is waited for without end."""

import os
import socket
from pathlib import Path

import pytest

from noisegate import Gate, discover_schema
from noisegate.app.drafts.draft import draft_schema
from noisegate.errors import DataError
from noisegate.schema import Integer, Schema, pixel_schema
from noisegate.sources.frames import read_table
from noisegate.sources.sources import open_source
from noisegate.sources.tables.tables import TableSource
from noisegate_images.sources.decode import ImageReadOptions
from noisegate_images.sources.find import find_images
from noisegate_papers.contrib.pretraining.training import read_public_images

SCHEMA = Schema((Integer(name="age", lower=0, upper=99),), ignore=("id", "old"))
IMAGES = pixel_schema(8, 8, 1)

READERS = {
    "Gate": lambda path: Gate(path, schema=SCHEMA, epsilon=1.0),
    "discover_schema": lambda path: discover_schema(
        path, epsilon=1.0, kinds={"age": "integer"}
    ),
    "draft_schema": draft_schema,
    "read_table": lambda path: read_table(path, SCHEMA),
    "open_source": lambda path: open_source(path, SCHEMA),
    "open_source of images": lambda path: open_source(path, IMAGES),
    "find_images": lambda path: find_images(
        Path(path), ImageReadOptions(form=IMAGES.images)
    ),
    "read_public_images": lambda path: read_public_images(Path(path), size=8),
}


@pytest.mark.parametrize("path", ["", " ", "\t\n", ".", "./", Path()], ids=repr)
@pytest.mark.parametrize("reader", READERS)
def test_an_empty_path_is_not_the_current_folder(reader, path, tmp_path, monkeypatch):
    (tmp_path / "synthetic.csv").write_text("age\n1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        DataError, match=r"an empty path, or the current folder.*give the name"
    ):
        READERS[reader](path)


def fifo(path):
    os.mkfifo(path)
    return path


def bound_socket(path):
    socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))  # a short name
    return path


def link_to_fifo(path):
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")
    return path


def among_tables(path):
    path.mkdir()
    (path / "a.csv").write_text("age\n1\n")
    os.mkfifo(path / "b.csv")
    return path


WAITING = {
    "a pipe": fifo,
    "a socket": bound_socket,
    "a device": lambda path: Path("/dev/zero"),
    "a link to a pipe": link_to_fifo,
    "a pipe among tables": among_tables,
}


@pytest.mark.filterwarnings("ignore:unclosed <socket")
@pytest.mark.parametrize("case", WAITING)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_plain_file_is_refused_and_not_waited_for(
    reader, case, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = WAITING[case](tmp_path / "x.csv")
    with pytest.raises(
        DataError, match=r"is not a regular file|holds a pipe, a device or a socket"
    ):
        READERS[reader](path)


@pytest.mark.parametrize("name", ["a.parquet", "train-images-idx3-ubyte", "b.npz"])
def test_a_pipe_among_images_is_refused(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="holds a pipe, a device or a socket"):
        find_images(tmp_path, ImageReadOptions(form=IMAGES.images))
    with pytest.raises(DataError, match="is not a regular file"):
        open_source(tmp_path / name, IMAGES)


def test_labels_that_are_a_pipe_are_refused(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(
        bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 8]) + bytes(64)
    )
    os.mkfifo(tmp_path / "train-labels-idx1-ubyte")
    with pytest.raises(DataError, match="is not a regular file"):
        open_source(
            tmp_path / "train-images-idx3-ubyte", pixel_schema(8, 8, 1, labels=range(2))
        ).check_against_schema()


@pytest.mark.parametrize("reader", READERS)
def test_a_link_to_itself_is_named(reader, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, f"{loop}/"):
        with pytest.raises(
            DataError, match=r"loop.*cannot be read: Too many levels of symbolic links"
        ):
            READERS[reader](path)


@pytest.mark.parametrize("reader", READERS)
def test_a_name_that_no_file_can_have_is_refused(reader):
    with pytest.raises(DataError, match="is not a regular file"):
        READERS[reader]("a\x00b.csv")
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        READERS[reader]("x" * 5000)


def test_a_file_that_differs_from_the_others_of_its_folder_is_named_with_its_column(
    tmp_path,
):
    (tmp_path / "a.csv").write_text("id,age\n1,2\n")
    (tmp_path / "b.csv").write_text("age,id\n1,2\n")
    assert sum(map(len, TableSource(tmp_path, SCHEMA).batches())) == 2
    # As it comes from `noisegate sample`: what the schema ignores is not in it.
    (tmp_path / "synthetic.csv").write_text("age\n1\n")
    with pytest.raises(
        DataError,
        match=r"^synthetic\.csv: .*column 'id' of a\.csv is not in synthetic\.csv; .*move away",
    ):
        TableSource(tmp_path, SCHEMA).check_against_schema()
    (tmp_path / "synthetic.csv").write_text("old,id,age\n1,2,3\n")
    with pytest.raises(
        DataError, match=r"column 'old' of synthetic\.csv is not in a\.csv"
    ):
        read_table(tmp_path, SCHEMA)
    with pytest.raises(
        DataError, match=r"column 'old' of synthetic\.csv is not in a\.csv"
    ):
        draft_schema(tmp_path)
