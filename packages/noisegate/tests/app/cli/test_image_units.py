"""Several images a patient on the command line: a column of the Parquet file, or a folder for each patient."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisegate import Ledger

UNIT = "all records of one {column}"


@pytest.fixture(params=["folder", "patient"])
def whose(request, gallery):
    """Which column says whose image it is: ten patients have three pictures of each class."""
    pictures = sorted(gallery.data.rglob("*.png"))
    names = [f"p{number % 10}" for number in range(len(pictures))]
    if request.param == "folder":
        for picture, name in zip(pictures, names, strict=True):
            (picture.parent / name).mkdir(exist_ok=True)
            shutil.move(picture, picture.parent / name / picture.name)
        return request.param
    images = [{"bytes": picture.read_bytes(), "path": None} for picture in pictures]
    struct = pa.array(
        images, pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    )
    table = pa.table(
        {
            "image": struct,
            "label": [picture.parent.name for picture in pictures],
            "patient": names,
        }
    )
    shutil.rmtree(gallery.data)
    gallery.data.mkdir()
    pq.write_table(table, gallery.data / "scans.parquet")
    return request.param


def test_the_guarantee_is_for_all_images_of_a_patient(whose, gallery, cli):
    unit = UNIT.format(column=whose)
    Ledger(gallery.ledger).register("patients", epsilon=30, delta=1e-5, unit=unit)
    arguments = [
        part if part != "clinic" else "patients"
        for part in gallery.fit("--unit-column", whose)
    ]
    ended = cli(*arguments, "--contributions", 4, "--json")
    assert ended.code == 0, ended.err
    certificate = ended.json["certificate"]
    assert certificate["guarantee"]["unit"] == unit
    assert certificate["guarantee"]["contributions"] == 4
    assert cli("verify", gallery.out).code == 0
    sampled = cli(f"sample {gallery.out} -n 20 -o made.parquet")
    assert sampled.code == 0, sampled.err
    assert pq.read_table(gallery.folder / "made.parquet").column_names == [
        "image",
        "label",
    ]


def test_a_unit_that_the_data_does_not_have_is_refused_and_spends_nothing(gallery, cli):
    ended = cli(*gallery.fit("--unit-column", "patient", "--contributions", 4))
    assert ended.code == 2
    assert "whose image each one is" in " ".join(ended.err.split())
    assert gallery.account().spent == 0
    assert not gallery.out.exists()
