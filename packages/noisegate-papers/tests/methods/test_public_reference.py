import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.shared.feature_space import SCHEMA as STRIPES
from tests.shared.feature_space import stripes, write_decoder

from noisegate import Gate
from noisegate.errors import DataError, OptionError
from noisegate.methods.registry import make_for
from noisegate.schema import Boolean, Integer, Schema, pixel_schema
from noisegate_papers.methods.public_reference import read_reference

SCHEMA = Schema(
    (
        Boolean(name="ill"),
        Integer(name="x", lower=0, upper=99_999),
        Boolean(name="old"),
    ),
    label="ill",
)


def table(rows=1000):
    return pa.table(
        {
            "x": np.arange(rows),
            "ill": np.arange(rows) % 3 == 0,
            "old": np.arange(rows) % 2 == 0,
        }
    )


def read(source, schema=SCHEMA, **options):
    return read_reference(
        source, schema, **{"most": 100, "labelled": True, "seed": 0, **options}
    )


def numbers(reference):
    return np.rint(reference.records.rows(slice(None)).numeric[:, 0] * 99_999).astype(
        int
    )


def test_every_record_has_the_same_chance_and_they_stay_in_order():
    found = read(table())
    assert (len(found.records), found.of, found.labelled) == (100, 1000, True)
    chosen = numbers(found)
    assert (np.diff(chosen) > 0).all()
    assert found.records.codes[:, 0].tolist() == (chosen % 3 == 0).astype(int).tolist()
    halves = np.mean(
        [(numbers(read(table(), seed=seed)) < 500).mean() for seed in range(40)]
    )
    # 4000 draws without replacement: off by 0.05 less than once in 1e9 runs.
    assert halves == pytest.approx(0.5, abs=0.05)
    assert numbers(read(table(), most=1000)).tolist() == list(range(1000))


def test_the_same_records_of_another_file_have_the_same_digest(tmp_path):
    pq.write_table(table(40_000), tmp_path / "one.parquet")
    pa.csv.write_csv(table(40_000), tmp_path / "one.csv")
    found = [
        read(source)
        for source in (
            tmp_path / "one.parquet",
            str(tmp_path / "one.csv"),
            table(40_000),
        )
    ]
    assert len({reference.sha256 for reference in found}) == 1
    assert len({reference.source_sha256 for reference in found}) == 3
    assert found[2].source_sha256 is None
    # Files are read some records at a time; which ones are drawn does not depend on it.
    assert len({tuple(numbers(reference)) for reference in found}) == 1
    assert read(table(40_000), seed=1).sha256 != found[0].sha256


def test_records_without_a_label_get_a_code_that_nobody_reads():
    for source in (table(), table().drop_columns("ill")):
        found = read(source, labelled=False)
        assert not found.labelled
        assert found.records.codes.shape == (100, 2)
        assert not found.records.codes[:, 0].any()
        assert (
            found.records.codes[:, 1].tolist()
            == (numbers(found) % 2 == 0).astype(int).tolist()
        )
    assert SCHEMA.unlabelled().names == ("x", "old")
    plain = Schema(SCHEMA.columns)
    assert plain.unlabelled() is plain
    assert not read(table(), plain).labelled


def test_images_of_other_labels_are_read_without_them(tmp_path):
    schema = pixel_schema(4, 4, labels=("cat", "dog"))
    for name in ("horse", "cow"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 4), len(name) * 40, np.uint8)).save(
            tmp_path / name / "one.png"
        )
    found = read(tmp_path, schema, labelled=False)
    assert sorted(found.records.pixels[:, 0, 0, 0].tolist()) == [120, 200]
    with pytest.raises(DataError, match=r"public: .*public_labels=false"):
        read(tmp_path, schema)


def test_what_is_unusable_is_named(tmp_path):
    with pytest.raises(OptionError, match=r"public=None.*public='PATH'"):
        read(None)
    with pytest.raises(DataError, match=r"public: .*nothing.csv"):
        read(tmp_path / "nothing.csv")
    # Values of public records may be quoted.
    odd = table().set_column(0, "x", pa.array(["1"] * 999 + ["many"]))
    with pytest.raises(DataError, match=r"public: .*many"):
        read(odd)


@pytest.mark.parametrize("name", ["pe", "dp-dre", "dp-gan-ft", "dp-mge"])
def test_public_images_that_are_private_ones_are_refused_by_every_method(
    name, tmp_path
):
    path = tmp_path / "private.parquet"
    pq.write_table(stripes(30), path)
    decoder = (
        {"decoder": write_decoder(tmp_path / "d.safetensors")}
        if name in ("dp-gan-ft", "dp-mge")
        else {}
    )
    method = make_for(name, STRIPES, {"public": str(path), **decoder})
    with pytest.raises(DataError, match="is a file of the private data"):
        method.query(Gate(str(path), schema=STRIPES, epsilon=1.0, records=30))
