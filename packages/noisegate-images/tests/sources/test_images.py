"""Every form in which images are kept gives the same records, bit for bit, in constant memory."""

import gzip
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.shared.image_files import class_folders, encoded, parquet, picture, pixels

from noisegate.errors import DataError
from noisegate.gate.sums import LocalEngine
from noisegate.schema import EncodedTable, pixel_schema
from noisegate.sources import TableSource, open_source
from noisegate.sources.units import UnitLimit
from noisegate_images.sources.images import ImageSource

LABELS = [0, 1, 1, 0, 2, 2]
GREY, COLOUR = pixels(), pixels(channels=3)


def schema_of(images, labels=(0, 1, 2), **rules):
    return pixel_schema(*images.shape[1:], labels=labels, **rules)


def encode(source, schema, **options):
    return EncodedTable.concatenate(
        list(open_source(source, schema, **options).batches())
    )


def rows_of(table):
    """The records as bytes, in any order: folders sort them by class."""
    codes = [code.tobytes() for code in table.codes]
    return sorted(zip(codes, [row.tobytes() for row in table.numeric], strict=True))


def frame(images, labels):
    """The same images as a table with a column for each pixel."""
    schema = schema_of(images)
    flat = images.reshape(len(images), -1)
    columns = {name: flat[:, place] for place, name in enumerate(schema.names[:-1])}
    return pa.table({**columns, "label": labels})


def listed(root, images, labels):
    (root / "deep").mkdir(parents=True)
    lines = ["file,label,note"]
    for place, image in enumerate(images):
        name = f"deep/{place}.png" if place % 2 else f"{place}.png"
        (root / name).write_bytes(encoded(picture(image)))
        lines.append(f"{name},{labels[place]},SECRET")
    (root / "labels.csv").write_text("\n".join(lines))
    (root / "unlisted.png").write_bytes(b"not read")
    return root


def described(root, images, labels):
    """As Hugging Face's imagefolder has it."""
    listed(root, images, labels)
    lines = (
        (root / "labels.csv")
        .read_text()
        .replace("file,label,note", "file_name,label,text")
    )
    (root / "metadata.csv").write_text(lines)
    (root / "labels.csv").unlink()
    return root


def parquet_folder(root, images, labels):
    root.mkdir()
    contents = [encoded(picture(image)) for image in images]
    parquet(root / "part-0.parquet", contents[:4], labels[:4])
    parquet(root / "part-1.parquet", contents[4:], labels[4:])
    return root


def idx_bytes(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + array.astype(np.uint8).tobytes()


def idx(root, images, labels, *, packed):
    root.mkdir(parents=True)
    grey = images[:, :, :, 0]
    files = {
        "train-images-idx3-ubyte": idx_bytes(grey),
        "train-labels-idx1-ubyte": idx_bytes(np.array(labels)),
        "t10k-images-idx3-ubyte": idx_bytes(grey[:1]),
        "t10k-labels-idx1-ubyte": idx_bytes(np.array(labels[:1])),
    }
    for name, content in files.items():
        if packed:
            (root / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (root / name).write_bytes(content)
            (root / f"{name}.gz").write_bytes(b"left behind, not read")
    return root


def npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def bare(path, images, labels):
    pq.write_table(
        pa.table(
            {"picture": [encoded(picture(image)) for image in images], "label": labels}
        ),
        path,
    )
    return path


FORMS = {
    "class folders": lambda root, images: class_folders(root / "scans", images, LABELS),
    "a folder and labels.csv": lambda root, images: listed(
        root / "scans", images, LABELS
    ),
    "a folder and metadata.csv": lambda root, images: described(
        root / "scans", images, LABELS
    ),
    "Parquet": lambda root, images: parquet(
        root / "x", [encoded(picture(image)) for image in images], LABELS
    ),
    "Parquet, labels as text": lambda root, images: parquet(
        root / "x.parquet",
        [encoded(picture(image)) for image in images],
        [f" {label}" for label in LABELS],
    ),
    "Parquet, a column of bytes": lambda root, images: bare(
        root / "x.parquet", images, LABELS
    ),
    "a folder of Parquet": lambda root, images: parquet_folder(
        root / "many", images, LABELS
    ),
    "npz": lambda root, images: npz(
        root / "x.npz", images=images, labels=np.array(LABELS, np.int32)
    ),
    "npz, labels as text": lambda root, images: npz(
        root / "x.npz", images=images, labels=np.array(LABELS).astype(str)
    ),
    "a table of pixels": lambda root, images: (
        pq.write_table(frame(images, LABELS), root / "p.pq") or root / "p.pq"
    ),
    "a CSV of pixels": lambda root, images: (
        pa.csv.write_csv(frame(images, LABELS), root / "p.csv") or root / "p.csv"
    ),
    "a frame of pixels": lambda root, images: frame(images, LABELS),
}


@pytest.mark.parametrize("images", [GREY, COLOUR], ids=["grey", "colour"])
@pytest.mark.parametrize("form", FORMS)
def test_the_same_images_give_the_same_bits_however_they_are_kept(
    form, images, tmp_path
):
    schema = schema_of(images)
    found = encode(FORMS[form](tmp_path, images), schema)
    expected = EncodedTable.concatenate(
        list(TableSource(frame(images, LABELS), schema).batches())
    )
    assert rows_of(found) == rows_of(expected)
    assert found.codes[:, 0].tolist() == (
        sorted(LABELS) if form == "class folders" else LABELS
    )


def test_a_table_of_other_things_stands_beside_class_folders(tmp_path):
    path = class_folders(tmp_path / "scans", GREY, LABELS)
    for header in ("file,label", "file_name,text", "text"):
        (path / "metadata.csv").write_text(f"{header}\n0/SECRET-000.png,x\n")
        assert len(encode(path, schema_of(GREY))) == 6


def test_errors_of_metadata_name_the_file_the_line_and_the_column(tmp_path):
    path = described(tmp_path / "scans", GREY, LABELS)
    (path / "2.png").unlink()
    with pytest.raises(
        DataError,
        match=r"metadata\.csv, line 4, column 'file_name': there is no such file",
    ):
        encode(path, schema_of(GREY))
    (path / "labels.csv").write_text("file,label\n0.png,0\n")
    with pytest.raises(
        DataError,
        match=r"scans: holds labels\.csv and metadata\.csv, which both list its images",
    ):
        encode(path, schema_of(GREY))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("place", [".", "raw", "MNIST/raw"])
def test_idx_files_stand_for_the_training_set(packed, place, tmp_path):
    idx(tmp_path / "root" / place, GREY, LABELS, packed=packed)
    found = encode(tmp_path / "root", schema_of(GREY))
    assert rows_of(found) == rows_of(encode(frame(GREY, LABELS), schema_of(GREY)))
    name = "t10k-images-idx3-ubyte" + ".gz" * packed
    assert len(encode(tmp_path / "root" / place / name, schema_of(GREY))) == 1


@pytest.mark.parametrize(
    "name", ["cifar-10-batches-py", "stl10_binary", "train_32x32.mat"]
)
def test_other_sets_of_torchvision_are_refused_with_the_way_to_turn_them_into_arrays(
    name, tmp_path
):
    (tmp_path / name).mkdir()
    with pytest.raises(
        DataError, match=rf"holds {name}, as torchvision keeps .* write it as \.npz"
    ):
        encode(tmp_path, schema_of(GREY))


UNLABELLED = {
    "a flat folder": lambda root: class_folders(root, GREY, ["scans"] * 6) / "scans",
    "class folders": lambda root: class_folders(root / "scans", GREY, LABELS),
    "a folder and labels.csv": lambda root: listed(root / "scans", GREY, LABELS),
    "a folder and metadata.csv": lambda root: described(root / "scans", GREY, LABELS),
    "Parquet": lambda root: parquet(
        root / "x.parquet", [encoded(picture(image)) for image in GREY], None
    ),
    "Parquet with labels": lambda root: FORMS["Parquet"](root, GREY),
    "npz": lambda root: npz(root / "x.npz", images=GREY[:, :, :, 0]),
    "idx": lambda root: idx(root / "raw", GREY, LABELS, packed=False),
}


@pytest.mark.parametrize("form", UNLABELLED)
def test_images_without_labels_are_read_from_every_form(form, tmp_path):
    found = encode(UNLABELLED[form](tmp_path), pixel_schema(5, 4))
    assert found.codes.shape == (6, 0)
    assert sorted(row.tobytes() for row in found.numeric) == sorted(
        (GREY.reshape(6, -1) / 255)[i].tobytes() for i in range(6)
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_full_and_an_image_does_not_feel_its_neighbours(threads, tmp_path):
    images = pixels(50)
    path = parquet(
        tmp_path / "x.parquet",
        [encoded(picture(image)) for image in images],
        [i % 3 for i in range(50)],
    )
    source = ImageSource(path, schema_of(images), batch_rows=8)
    batches = list(source.batches())
    assert [len(batch) for batch in batches] == [8] * 6 + [2]
    order = np.random.default_rng(1).permutation(50)
    shuffled = parquet(
        tmp_path / "y.parquet",
        [encoded(picture(images[i])) for i in order],
        [int(i) % 3 for i in order],
    )
    whole, other = (
        EncodedTable.concatenate(batches),
        encode(shuffled, schema_of(images)),
    )
    assert other.numeric.tobytes() == whole.numeric[order].tobytes()
    assert other.codes.tobytes() == whole.codes[order].tobytes()
    seen = []
    totals = LocalEngine(threads=threads).sum(source, {}, seen.append)
    assert (totals.records, seen[-1]) == (50, 50)


def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 1), dtype=np.uint8)
    content = encoded(picture(image))
    peaks = []
    for count in (600, 2400):
        path = parquet(tmp_path / f"{count}.parquet", [content] * count, [0] * count)
        source = ImageSource(path, pixel_schema(64, 64, labels=(0,)), batch_rows=100)
        tracemalloc.start()
        assert sum(len(batch) for batch in source.batches()) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (
        peaks[1] < 1.3 * peaks[0] < 20e6
    )  # all of the larger one in memory would be 79 MB of positions


def test_arrays_are_read_a_part_at_a_time(tmp_path):
    path = npz(
        tmp_path / "x.npz",
        images=np.zeros((400, 64, 64), np.uint8),
        labels=np.arange(400) % 3,
    )
    source = ImageSource(path, pixel_schema(64, 64, labels=(0, 1, 2)), batch_rows=20)
    tracemalloc.start()
    codes = np.concatenate([batch.codes[:, 0] for batch in source.batches()])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert codes.tolist() == [i % 3 for i in range(400)]
    assert (
        peak < 6e6
    )  # a batch is 0.7 MB; all images would be 1.6 MB and their positions 13 MB


CLASS_LABEL = {
    "info": {
        "features": {"label": {"names": ["cat", "dog", "eel"], "_type": "ClassLabel"}}
    }
}


def test_text_is_declared_and_the_data_names_its_numbers(tmp_path):
    contents = [encoded(picture(image)) for image in GREY]
    named = parquet(
        tmp_path / "x.parquet",
        contents,
        LABELS,
        metadata={"huggingface": json.dumps(CLASS_LABEL)},
    )
    found = encode(named, schema_of(GREY, labels=("eel", "cat", "dog", "fox")))
    assert found.codes[:, 0].tolist() == [1, 2, 2, 1, 0, 0]
    assert encode(named, schema_of(GREY, labels=(2, 1, 0))).codes[:, 0].tolist() == [
        2,
        1,
        1,
        2,
        0,
        0,
    ]
    with pytest.raises(
        DataError, match="gives names to its classes that are not all declared"
    ):
        open_source(
            named, schema_of(GREY, labels=("cat", "dog"))
        ).check_against_schema()
    for metadata in (None, {"huggingface": "{"}, {"huggingface": '{"info": 3}'}):
        plain = parquet(tmp_path / "y.parquet", contents, LABELS, metadata=metadata)
        with pytest.raises(
            DataError, match="holds whole numbers, and the schema declares text"
        ):
            open_source(
                plain, schema_of(GREY, labels=("cat", "dog", "eel"))
            ).check_against_schema()


@pytest.mark.parametrize(("limit", "kept"), [(1, [0, 1, 0]), (2, [0, 1, 1, 0, 2])])
@pytest.mark.parametrize("form", ["Parquet", "labels.csv"])
def test_a_column_says_whose_image_each_one_is(form, limit, kept, tmp_path):
    whose = ["a", "b", "b", "c", "a", "a"]
    if form == "Parquet":
        path = parquet(
            tmp_path / "x.parquet",
            [encoded(picture(image)) for image in GREY],
            LABELS,
            who=whose,
        )
    else:
        path = listed(tmp_path / "scans", GREY, LABELS)
        lines = (path / "labels.csv").read_text().splitlines()
        names = ["who", *whose]
        (path / "labels.csv").write_text(
            "\n".join(f"{line},{name}" for line, name in zip(lines, names, strict=True))
        )
    for rows in (1, 4096):
        source = ImageSource(
            path,
            schema_of(GREY),
            units=UnitLimit(column="who", contributions=limit),
            batch_rows=rows,
        )
        found = EncodedTable.concatenate(list(source.batches()))
        assert found.codes[:, 0].tolist() == kept


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize(
    ("limit", "kept"),
    [(1, ["a0", "b0"]), (2, ["a0", "a1", "b0"]), (9, ["a0", "a1", "a2", "b0"])],
)
def test_a_folder_says_whose_image_each_one_is(limit, kept, labelled, tmp_path):
    # Patient a has two images of one class and one of another, b has one.
    places = {"a0": "0/a/0", "a1": "0/a/1", "a2": "1/a/0", "b0": "1/b/0"}
    images = dict(zip(places, pixels(4), strict=True))
    for number, (name, place) in enumerate(places.items()):
        file = tmp_path / "scans" / (place if labelled else f"{name[0]}/{number}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(picture(images[name])))
    schema = schema_of(GREY) if labelled else pixel_schema(5, 4)
    for rows in (1, 4096):
        units = UnitLimit(column="folder", contributions=limit)
        source = ImageSource(tmp_path / "scans", schema, units=units, batch_rows=rows)
        found = list(source.batches())
        seen = np.concatenate([batch.pixels for batch in found])
        assert np.array_equal(
            seen, np.stack([images[name] for name in kept]).reshape(seen.shape)
        )
        if labelled:
            codes = np.concatenate([batch.codes[:, 0] for batch in found])
            assert codes.tolist() == [int(places[name][0]) for name in kept]
        parts = [
            read()
            for part in source.split_into_parts(1, 3)
            for read in part.batch_readers()
        ]
        assert sum(map(len, parts)) == len(kept)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (
            "0/x.png",
            "scans/0: holds images outside of folders, so nobody knows whose they are",
        ),
        (
            "0/secret/b/x.png",
            "scans/0/folder 1: holds a folder, which would not be read",
        ),
        ("x.png", "holds images outside of class folders"),
    ],
)
def test_images_of_nobody_are_refused(place, says, tmp_path):
    for name in ("0/secret/a.png", place):
        file = tmp_path / "scans" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(picture(GREY[0])))
    with pytest.raises(DataError, match=says) as caught:
        ImageSource(
            tmp_path / "scans",
            schema_of(GREY),
            units=UnitLimit(column="folder", contributions=1),
        ).check_against_schema()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("form", ["class folders", "npz"])
def test_images_without_columns_have_no_unit_column(form, tmp_path):
    source = open_source(
        FORMS[form](tmp_path, GREY),
        schema_of(GREY),
        units=UnitLimit(column="who", contributions=1),
    )
    with pytest.raises(DataError, match="whose image each one is"):
        source.check_against_schema()


@pytest.mark.data
def test_mnist_and_cifar_are_read_as_they_are(data_dir):
    for name, schema in (
        ("mnist", pixel_schema(28, 28, labels=range(10))),
        ("cifar10", pixel_schema(32, 32, 3, labels=range(10))),
    ):
        source = open_source(data_dir / name / "test.parquet", schema)
        codes = np.concatenate([batch.codes[:, 0] for batch in source.batches()])
        table = pq.read_table(data_dir / name / "test.parquet", columns=["label"])
        assert codes.tolist() == table["label"].to_pylist()
