"""Survey weights: which columns may hold them, and that a schema keeps them."""

from datetime import date

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, continuous, integer

from noisegate import draft_schema
from noisegate.errors import SchemaError
from noisegate.schema import Date, Schema, pixel_schema
from noisegate.schema.linked.schema import LinkedTable

WEIGHT = integer("weight", 0, 500)
ILL = boolean("ill")


def test_a_file_keeps_them():
    schema = Schema([WEIGHT, ILL], weights="weight")
    assert 'weights = "weight"' in schema.dumps()
    assert Schema.loads(schema.dumps()) == schema
    assert Schema.from_json(schema.to_json()) == schema


def test_a_schema_without_them_has_the_digest_of_before():
    assert "weights" not in Schema([WEIGHT, ILL]).dumps()


def test_they_are_shown_as_the_role_of_their_column():
    (sheet, *_) = Schema([WEIGHT, ILL], weights="weight").card().sheets
    assert [row[-1] for row in sheet.rows] == ["survey weights", ""]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (ILL, "'weight' is not one of the columns"),
        (boolean("weight"), "kind boolean; expected numbers"),
        (
            Date(name="weight", lower=date(2020, 1, 1), upper=date(2021, 1, 1)),
            "kind date; expected numbers",
        ),
        (continuous("weight", -1, 1), "may be negative"),
        (continuous("weight", 0, 1, missing=True), "may be missing"),
        (
            continuous("weight", 1, 9, limits=["<1"]),
            "may be missing or beyond a limit",
        ),
    ],
)
def test_other_columns_are_refused(column, message):
    with pytest.raises(SchemaError, match=message):
        Schema([column], weights="weight")


def test_the_label_is_refused():
    with pytest.raises(SchemaError, match="both the label and the weights"):
        Schema([WEIGHT, ILL], label="weight", weights="weight")


def test_images_have_none():
    images = pixel_schema(4, 4)
    with pytest.raises(SchemaError, match="images have none"):
        Schema(images.columns, images=images.images, weights="weight")


def test_linked_tables_have_none():
    schema = Schema([WEIGHT, ILL], weights="weight")
    with pytest.raises(SchemaError, match="weights are for single tables"):
        LinkedTable(name="persons", schema=schema)


@pytest.mark.parametrize(
    ("name", "is_proposed"),
    [("fnlwgt", True), ("Person_Weight", True), ("weight", False), ("wt", False)],
)
@pytest.mark.filterwarnings("ignore:.*looks like survey weights")
def test_a_draft_proposes_columns_that_are_called_so(name, is_proposed):
    random = np.random.default_rng(0)
    weights = random.integers(100, 130, size=200)
    public = pd.DataFrame({name: weights, "ill": [True, False] * 100})
    remarks = " ".join(draft_schema(public).reasons)
    assert (f'add weights = "{name}"' in remarks) == is_proposed
