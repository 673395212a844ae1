"""Methods that train a model of records on gradients, from fit to samples, on small images as tables of pixels."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from noisegate.methods.registry import METHODS
from noisegate.schema import pixel_schema

from .conftest import Desk

SHORT = "steps=3", "sampling_probability=0.2", "image=[8,8,1]"
SETTINGS = {
    "psg": [
        "steps=3",
        "sampling_probability=0.2",
        "image=[8,8,1]",
        "width=4",
        "depth=1",
        "samples_per_class=2",
        "epochs=1",
    ],
    "dp-gan": [
        "steps=3",
        "sampling_probability=0.2",
        "image=[8,8,1]",
        "discriminator_steps=1",
        "batch=8",
        "hidden=[16]",
    ],
    "dp-cgan": [
        "steps=3",
        "sampling_probability=0.2",
        "image=[8,8,1]",
        "discriminator_steps=1",
        "batch=8",
        "hidden=[16]",
    ],
}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    schema, random = pixel_schema(8, 8, labels=(0, 1)), np.random.default_rng(0)
    desk = Desk(folder=tmp_path_factory.mktemp("images"))
    schema.to_toml(desk.schema)
    labels = np.arange(60) % 2
    table = {name: random.integers(0, 100, 60) + 100 * labels for name in schema.names[:-1]} | {"label": labels}
    pyarrow.csv.write_csv(pa.table(table), desk.data)
    return desk


@pytest.mark.parametrize("method", [name for name in SETTINGS if name in METHODS])
def test_from_fit_to_samples(images, cli, tmp_path, method):
    model, out = tmp_path / "model", tmp_path / "made.csv"
    settings = [part for setting in SETTINGS[method] for part in ("--set", setting)]
    options = ["--schema", images.schema, "--epsilon", "1", "--records", "60", "--method", method, *settings]
    ended = cli("plan", *options, "--json")
    assert (ended.json["method"], ended.json["steps"]) == (method, 3)
    ended = cli("fit", images.data, *options, "--out", model, "--dataset", "clinic", "--ledger", images.ledger)
    assert ended.code == 0, ended.err
    assert "noisegate sample" in " ".join(ended.out.split())
    assert cli("verify", model).code == 0
    assert cli("sample", model, "-n", 20, "-o", out, "--seed", 1).code == 0
    table = pyarrow.csv.read_csv(out)
    assert (table.num_rows, table.num_columns) == (20, 65)
    assert not model.with_name("model.partial").exists()
