import json

import pytest
from tests.shared.patience import at_most_calls

from noisegate.errors import SchemaError
from noisegate.schema import Categorical, Integer, Schema, pixel_schema

TOML = """
[images]
height = 28
width = 14
channels = 3
label = "animal"
labels = ["cat", "dog"]
resize = "crop"
convert = true
"""


def test_a_schema_of_images_is_written_by_their_form_not_by_their_columns():
    schema = Schema.loads(TOML)
    assert schema == pixel_schema(
        28, 14, 3, labels=("cat", "dog"), label="animal", resize="crop", convert=True
    )
    assert schema.dumps().strip() == TOML.strip()
    assert schema.to_json() == {
        "images": {
            "height": 28,
            "width": 14,
            "channels": 3,
            "label": "animal",
            "labels": ["cat", "dog"],
            "resize": "crop",
            "convert": True,
        }
    }
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert Schema.from_json(schema.to_json()).digest() == schema.digest()


def test_constraints_and_texts_for_missing_values_travel_with_images():
    rule = '\n[[constraints]]\nrule = "pixel_0_0 <= pixel_0_1"\n'
    schema = Schema.loads(
        'missing_values = ["-"]\n[images]\nheight = 1\nwidth = 2\nlabels = ["nan", "x"]\n'
        + rule
    )
    assert schema.missing_values == ("-",)
    assert len(schema.constraints) == 1
    assert Schema.loads(schema.dumps()) == schema == Schema.from_json(schema.to_json())


def test_the_long_form_of_older_models_is_still_read_and_keeps_its_digest():
    pixels = tuple(
        Integer(name=f"pixel_0_{column}", lower=0, upper=255) for column in range(2)
    )
    old = Schema((*pixels, Categorical(name="label", levels=(0, 1))), label="label")
    read = Schema.from_json(old.to_json())
    assert read == old
    assert read.images is None
    assert read.digest() == old.digest()
    assert "columns" in read.to_json()


def test_columns_of_another_form_are_refused():
    form = pixel_schema(1, 2, labels=(0, 1)).images
    with pytest.raises(
        SchemaError,
        match=r"not those of images of 1 x 2 x 1; make the schema with pixel_schema",
    ):
        Schema(pixel_schema(1, 3, labels=(0, 1)).columns, label="label", images=form)
    with pytest.raises(SchemaError, match="not those of images"):
        Schema(form.columns, images=form)
    with pytest.raises(SchemaError, match=r"expected a noisegate\.schema\.ImageForm"):
        Schema(form.columns, label="label", images={"height": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[images]\nheight = 2", "width missing; give the size"),
        ("[images]\nheight = 2\nwidth = 2\nsize = 3", "unknown key 'size'"),
        ("[images]\nheight = 2\nwidth = 0", "width=0 of an image must be a positive"),
        (
            '[images]\nheight = 2\nwidth = 2\nresize = "fit"',
            "resize = 'fit'.*choose one of refuse, stretch, crop, pad",
        ),
        (
            "[images]\nheight = 2\nwidth = 2\nconvert = 1",
            "convert of images must be true or false",
        ),
        (
            '[images]\nheight = 2\nwidth = 2\nlabel = "x"',
            "labels missing; list every label",
        ),
        ("[images]\nheight = 2\nwidth = 2\nlabels = []", "list of levels is empty"),
        (
            "[images]\nheight = 2\nwidth = 2\nlabels = [1, 1]",
            "level 1 is listed more than once",
        ),
        ('[images]\nheight = 2\nwidth = 2\nlabels = "cat"', "levels must be a list"),
        (
            'label = "x"\n[images]\nheight = 2\nwidth = 2',
            "`label` cannot stand beside .images.",
        ),
        ("images = 3", "write height, width, channels and labels under"),
    ],
)
def test_a_wrong_form_is_refused_by_name(text, message):
    with pytest.raises(SchemaError, match=message):
        Schema.loads(text)


def test_images_as_large_as_memory_holds_have_a_schema_at_once():
    with at_most_calls(100_000):  # no column is made that nobody asks for
        schema = pixel_schema(20_000, 30_000, 3, labels=range(10))
        assert len(schema.layout.numeric) == 1_800_000_000
        assert schema.columns[-2].name == "pixel_19999_29999_2"
        assert schema.column("label").levels == tuple(range(10))
        assert Schema.loads(schema.dumps()) == schema
