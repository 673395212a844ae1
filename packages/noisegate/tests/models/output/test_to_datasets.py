"""Synthetic records as a Hugging Face data set, by the real library."""

import datasets
import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import categorical, integer

from noisegate import Pairwise, Schema, synthesize
from noisegate.errors import OptionError, installed
from noisegate.schema import pixel_schema

SCHEMA = Schema(
    (
        integer("age", 0, 99, missing=True),
        categorical("job", "ab"),
    )
)
TABLE = pa.table({"age": [31, 58, None, 67] * 50, "job": ["a", "b", "a", "b"] * 50})


@pytest.fixture(scope="module")
def model():
    return Pairwise(cells=4, fit_options={"steps": 10}).fit(
        TABLE.to_pandas(), schema=SCHEMA, epsilon=5.0
    )


def test_a_table_becomes_a_data_set_with_its_statement(model):
    data_set = model.to_datasets(20, seed=1)
    assert isinstance(data_set, datasets.Dataset)
    assert data_set.features == datasets.Features(
        {"age": datasets.Value("int64"), "job": datasets.Value("string")}
    )
    assert data_set.to_list() == pa.concat_tables(model.batches(20, seed=1)).to_pylist()
    assert "(5, 1e-05)-differential privacy" in data_set.info.description
    assert len(model.to_datasets(0)) == 0
    assert set(model.to_datasets(10, where={"job": "a"})["job"]) == {"a"}
    with pytest.raises(OptionError, match="n=-1"):
        model.to_datasets(-1)


@pytest.mark.skipif(not installed("torch"), reason="images are fitted with torch")
@pytest.mark.parametrize("labels", [("cat", "dog"), (3, 7), None])
def test_images_become_an_image_column(labels):
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    few = dict(
        pixels=20,
        orientations=20,
        wavelets=20,
        channels=(4, 2),
        fit_options={"steps": 2, "batch": 10},
    )
    data = (
        images
        if labels is None
        else (images, [labels[index % 2] for index in range(40)])
    )
    model = synthesize(
        data,
        schema=pixel_schema(8, 8, labels=labels),
        epsilon=5.0,
        device="cpu",
        **few,
    )
    data_set = model.to_datasets(5, seed=2)
    batch = next(model.images(5, seed=2))
    assert isinstance(data_set.features["image"], datasets.Image)
    assert np.array_equal(
        np.stack([np.asarray(image) for image in data_set["image"]]),
        batch.pixels[..., 0],
    )
    if labels is None:
        return
    names = data_set.features["label"]
    label_values = (
        names.int2str(data_set["label"][:])
        if isinstance(labels[0], str)
        else data_set["label"][:]
    )
    assert tuple(label_values) == batch.labels
