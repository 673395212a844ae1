"""Tables in an object store are read as those on a disk, by whoever may; nothing else is asked of a network."""

import io
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from pyarrow.csv import write_csv
from tests.shared.played_s3 import played_s3

from noisegate import fit
from noisegate.errors import DataError, OptionError
from noisegate.schema import EncodedTable, Integer, Schema, pixel_schema
from noisegate.sources import TableSource, stores
from noisegate.sources.overlap import check_apart
from noisegate_images.sources.images import ImageSource

AGES = Schema((Integer(name="age", lower=0, upper=200),))


def written(ages, kind):
    table, stream = pa.table({"age": pa.array(ages, pa.int64())}), io.BytesIO()
    if kind == "csv":
        write_csv(table, stream)
    else:
        pq.write_table(table, stream, row_group_size=20)
    return stream.getvalue()


@pytest.fixture
def store(monkeypatch):
    objects = {
        f"{kind}/visits/{number}.{kind}": written(
            range(90 * number, 90 * number + 90), kind
        )
        for kind in ("csv", "parquet")
        for number in (0, 1)
    }
    stores._connect.cache_clear()
    with played_s3(objects, "me") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        for name, value in (
            ("ACCESS_KEY_ID", "me"),
            ("SECRET_ACCESS_KEY", "SECRET"),
            ("DEFAULT_REGION", "eu-west-1"),
        ):
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield server
    stores._connect.cache_clear()


def ages(batches):
    return EncodedTable.concatenate(list(batches)).numeric[:, 0].tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_and_a_file_in_a_store_are_read(kind, store):
    scale = 200
    folder = TableSource(f"s3://bucket/{kind}/visits", AGES)
    assert [round(age * scale) for age in ages(folder.batches())] == list(range(180))
    file = TableSource(f"s3://bucket/{kind}/visits/1.{kind}", AGES)
    assert [round(age * scale) for age in ages(file.batches())] == list(range(90, 180))
    parts = pickle.loads(pickle.dumps(list(folder.split_into_parts(100))))
    assert len(parts) > 4
    assert ages(read() for part in parts for read in part.batch_readers()) == ages(
        folder.batches()
    )


@pytest.mark.parametrize(
    "path", ["s3://bucket/nothing", "s3://bucket/csv/visits/2.csv"]
)
def test_what_is_not_there_is_named_as_it_was_given(path, store):
    with pytest.raises(
        DataError, match=f"^{path}: cannot be read: there is no such object"
    ):
        TableSource(path, AGES)


def test_who_may_not_read_is_told_where_keys_belong(store, monkeypatch):
    store.user = "another"
    with pytest.raises(
        DataError,
        match=r"^s3://bucket/csv: cannot be read: the store does not respond, or",
    ) as caught:
        TableSource("s3://bucket/csv", AGES)
    assert "SECRET" not in str(caught.value)


def test_keys_in_a_path_are_refused_and_not_repeated(store):
    with pytest.raises(OptionError, match="keys do not belong in a path") as caught:
        TableSource("s3://me:SECRET@bucket/csv", AGES)
    assert "me:" not in str(caught.value) and not store.asked


@pytest.fixture
def pictures(store):
    pixels = np.random.default_rng(0).integers(0, 256, (7, 2, 2), dtype=np.uint8)
    pieces = []
    for image in pixels:
        Image.fromarray(image).save(piece := io.BytesIO(), "PNG")
        pieces.append(piece.getvalue())
    pq.write_table(
        pa.table({"image": pa.array(pieces, pa.binary())}),
        stream := io.BytesIO(),
        row_group_size=3,
    )
    store.objects["images/a.parquet"] = stream.getvalue()
    store.objects["images/_SUCCESS"] = b""  # as Spark leaves behind
    return pixels


def test_images_in_parquet_in_a_store_are_read_as_a_whole_and_in_parts(store, pictures):
    source = ImageSource("s3://bucket/images", pixel_schema(2, 2))
    whole = np.concatenate([batch.pixels for batch in source.batches()]).reshape(
        pictures.shape
    )
    assert np.array_equal(whole, pictures)
    parts = pickle.loads(pickle.dumps(list(source.split_into_parts(1))))
    assert len(parts) == 3
    read = np.concatenate(
        [read().pixels for part in parts for read in part.batch_readers()]
    ).reshape(pictures.shape)
    assert np.array_equal(read, pictures)


def test_images_of_another_form_in_a_store_are_refused(store, pictures):
    store.objects["images/b.png"] = b"a picture"
    with pytest.raises(
        DataError, match=r"^s3://bucket/images: images are read from a store as Parquet"
    ):
        ImageSource("s3://bucket/images", pixel_schema(2, 2))
    with pytest.raises(DataError, match="there are no images"):  # a table, then
        ImageSource("s3://bucket/csv/visits", pixel_schema(2, 2))


def test_a_public_table_in_a_store_that_is_the_private_one_is_found(store, tmp_path):
    (tmp_path / "copy.csv").write_bytes(written(range(90), "csv"))
    for private, public in (
        ("s3://bucket/csv/visits", tmp_path),
        (tmp_path, "s3://bucket/csv"),
        ("s3://bucket/parquet", "s3://bucket/parquet/visits/1.parquet"),
    ):
        with pytest.raises(
            DataError, match=f"^public='{public}': .* is a file of the private data"
        ):
            check_apart(private, public)
    check_apart("s3://bucket/csv", "s3://bucket/parquet")


def test_a_fit_reads_a_store_and_its_model_names_no_key(store, tmp_path):
    model = fit(
        "s3://bucket/csv/visits",
        schema=AGES,
        epsilon=1.0,
        method="pairwise",
        out=tmp_path / "model",
        seed=0,
    )
    assert model.certificate.epsilon == 1.0
    kept = b"".join(
        path.read_bytes() for path in (tmp_path / "model").rglob("*") if path.is_file()
    )
    assert b"SECRET" not in kept and b"bucket" not in kept
