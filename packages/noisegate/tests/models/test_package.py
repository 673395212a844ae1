"""Packages of synthetic records, read by the libraries of the formats that describe them."""

import hashlib
import io
import json
from datetime import UTC, date, datetime
from pathlib import Path

import frictionless
import mlcroissant
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal
from tests.shared.models_output_room import KINDS, pictures

from noisegate import Adjacency, Certificate, Pairwise, Release, Schema
from noisegate.errors import OptionError
from noisegate.models.output.sample_file import sample_writer
from noisegate.models.package import new_package
from noisegate.schema import (
    Comparison,
    Date,
    Datetime,
    Decimal,
)

FIRST = datetime(2020, 1, 1)
LAST = datetime(2020, 12, 31)
COLUMNS = (
    integer("age, in years", 18, 90, atoms=(999,), missing=True),
    continuous("dose", -1.5, 2.5),
    Decimal(name="price", lower=0, upper=99.9, step=0.1),
    Date(name="born", lower=date(1950, 1, 1), upper=date(2000, 12, 31), missing=True),
    Datetime(name="seen", lower=FIRST, upper=LAST),
    Datetime(
        name="sent",
        lower=FIRST.replace(tzinfo=UTC),
        upper=LAST.replace(tzinfo=UTC),
        step=60,
    ),
    ordinal("pain", (0, 1, 2)),
    categorical('job "now"', ("nurse", "a, b", "Gärtner"), missing=True),
    boolean("ill", missing=True),
)
FILES = {"certificate.json", "certificate.md", "croissant.json", "datapackage.json"}


@pytest.fixture(
    scope="module", params=[(), ("?",)], ids=["empty cells", "question marks"]
)
def model(request):
    rule = Comparison(left="dose", relation="<=", right="price")
    missing = {"missing_values": request.param} if request.param else {}
    schema = Schema(COLUMNS, constraints=(rule,), **missing)
    rows = {
        "age, in years": [31, 999, None, 67],
        "dose": [0.0, 1.0, -1.0, 2.0],
        "price": [99.9, 3.0, 20.5, 50.1],
        "born": [date(1960, 5, 1), None, date(1999, 1, 1), date(1970, 2, 2)],
        "seen": [FIRST, LAST, datetime(2020, 5, 5, 12, 30, 1, 5), FIRST],
        "sent": [FIRST.replace(tzinfo=UTC)] * 4,
        "pain": [0, 1, 2, 1],
        'job "now"': ["nurse", None, "a, b", "Gärtner"],
        "ill": [True, False, None, True],
    }
    table = pa.table({name: values * 100 for name, values in rows.items()})
    return Pairwise(cells=4, fit_options={"steps": 10}).fit(
        table, schema=schema, epsilon=50.0
    )


def described(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_frictionless_finds_every_record_within_its_description(model, tmp_path):
    folder = model.package(tmp_path / "handout", 300, licence="CC-BY-4.0", seed=1)
    assert {path.name for path in folder.iterdir()} == FILES | {"synthetic.csv"}
    report = frictionless.validate(str(folder / "datapackage.json"))
    assert report.valid, report.flatten(["rowNumber", "fieldName", "note"])[:5]
    (resource,) = frictionless.Package(str(folder / "datapackage.json")).resources
    rows = [row.to_dict() for row in resource.read_rows()]
    expected = model.sample(300, seed=1).to_pylist()
    for name in ("age, in years", "born", "seen", "pain", 'job "now"', "ill"):
        assert [row[name] for row in rows] == [row[name] for row in expected]
    assert [float(row["dose"]) for row in rows] == [row["dose"] for row in expected]
    assert any(row["ill"] is None for row in rows)
    package = described(folder, "datapackage.json")
    assert package["licenses"] == [{"name": "CC-BY-4.0"}]
    assert package["sources"][0]["path"] == "certificate.json"
    assert "dose <= price" in package["description"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("column", "worse"),
    [
        ("pain", "7"),
        ("born", "2001-01-01"),
        ("dose", "2.6"),
        ("seen", "soon"),
        ("price", ""),
    ],
)
def test_frictionless_refuses_what_the_schema_does(model, tmp_path, column, worse):
    folder = model.package(tmp_path / "handout", 3, seed=1)
    path = folder / "synthetic.csv"
    values = {column.name: "" for column in COLUMNS}
    values |= {
        "dose": "1",
        "price": "2",
        "seen": "2020-05-05 12:30:01.000005",
        "sent": "2020-05-05 12:30:00.000000Z",
    }
    values |= {
        name: "?"
        for name, cell in values.items()
        if cell == "" and model.schema.missing_values == ("?",)
    }
    values |= {"pain": "1"} | {
        column: worse if worse or model.schema.missing_values != ("?",) else "?"
    }
    row = ",".join(f'"{value}"' if "," in value else value for value in values.values())
    path.write_text(
        path.read_text(encoding="utf-8").splitlines()[0] + "\n" + row + "\n",
        encoding="utf-8",
    )
    resource = described(folder, "datapackage.json")["resources"][0]
    for key in ("hash", "bytes"):
        del resource[key]
    report = frictionless.Resource(resource, basepath=str(folder)).validate()
    assert [error[0] for error in report.flatten(["fieldName"])] == [column]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", ["synthetic.csv", "made.parquet"])
def test_croissant_reads_the_same_records(model, tmp_path, name):
    if name.endswith(".csv") and model.schema.missing_values == ("?",):
        return  # Croissant 1.0 cannot say how missing cells are spelled: Parquet is for these
    folder = model.package(
        tmp_path / "handout",
        50,
        name=name,
        licence="https://example.org/licence",
        seed=1,
    )
    content = described(folder, "croissant.json")
    assert content["isLiveDataset"] is False
    assert content["license"] == "https://example.org/licence"
    for distribution in content["distribution"]:
        assert (
            distribution["sha256"]
            == hashlib.sha256(
                (folder / distribution["contentUrl"]).read_bytes()
            ).hexdigest()
        )
    dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    issues = dataset.metadata.ctx.issues
    metadata = dataset.metadata
    assert not issues.errors, issues.report()
    assert not issues.warnings, issues.report()
    assert "bounded by (50, 1e-05)" in metadata.personal_sensitive_information[0]
    assert "synthetic" in metadata.data_collection
    assert metadata.data_biases
    assert metadata.data_limitations
    assert metadata.data_use_cases
    assert metadata.data_preprocessing_protocol
    expected = model.sample(50, seed=1).to_pylist()
    records = list(dataset.records("records"))
    assert len(records) == 50
    for row, record in zip(expected, records, strict=True):
        assert record["records/dose"] == row["dose"]
        assert record["records/pain"] == row["pain"]
        assert len(record) == len(COLUMNS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_images_are_described_as_their_files_hold_them(kind, tmp_path):
    schema = KINDS[kind]
    batches = pictures(schema, 7), pictures(schema, 2, seed=1)
    guarantee = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "adjacency": Adjacency.ADD_REMOVE,
        "unit": "record",
    }
    certificate = Certificate(
        **guarantee, events=(), method="none", public={"schema": schema.to_json()}
    )
    release = Release(values={}, noise_std={}, certificate=certificate)
    with (
        new_package(tmp_path / "handout", Path("synthetic.parquet"), release) as path,
        sample_writer(path, schema, 9) as write,
    ):
        for batch in batches:
            write(batch)
    frictionless.Package(
        described(tmp_path / "handout", "datapackage.json")
    )  # its metadata are checked here
    dataset = mlcroissant.Dataset(jsonld=str(tmp_path / "handout" / "croissant.json"))
    records = list(dataset.records("records"))
    images = [image for batch in batches for image in batch.pixels]
    for record, image in zip(records, images, strict=True):
        read = record["records/image"]
        picture = (
            read if isinstance(read, Image.Image) else Image.open(io.BytesIO(read))
        )
        assert np.array_equal(np.asarray(picture).reshape(image.shape), image)
    if schema.images.label is None:
        return
    labels = [label for batch in batches for label in batch.labels]
    field = described(tmp_path / "handout", "datapackage.json")["resources"][0][
        "schema"
    ]["fields"][1]
    names = {
        category["value"]: category["label"] for category in field.get("categories", ())
    }
    told = [record["records/label"] for record in records]
    assert [names.get(label, label) for label in told] == (
        [str(label) for label in labels] if names else labels
    )


@pytest.mark.parametrize("name", ["made.npz", "made", "../made.csv", "in/made.csv"])
def test_other_names_are_refused(model, tmp_path, name):
    with pytest.raises(OptionError, match="name of a file"):
        model.package(tmp_path / "handout", 5, name=name)
    assert not list(tmp_path.iterdir())


def test_a_package_is_whole_or_not_there(model, tmp_path):
    with (
        pytest.raises(RuntimeError),
        new_package(tmp_path / "handout", Path("a.csv"), model.release) as path,
    ):
        path.write_text("a\n")
        raise RuntimeError
    with pytest.raises(OptionError, match="empty"):
        model.package(tmp_path / "handout", 5, licence=" ")
    assert not list(tmp_path.iterdir())
    model.package(tmp_path / "handout", 5)
    with pytest.raises(OptionError, match="exists"):
        model.package(tmp_path / "handout", 5)
