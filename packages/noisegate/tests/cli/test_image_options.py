"""Images described on the command line: the same as in a schema file, or a message that teaches."""

import pytest

from noisegate.cli.options import RunOptions
from noisegate.schema import Schema, pixel_schema

GIVEN = {
    "digits": ({"size": "28", "classes": "10"}, pixel_schema(28, 28, labels=range(10))),
    "names": ({"size": "32,48", "classes": "cat, dog", "channels": 3}, pixel_schema(32, 48, 3, labels=("cat", "dog"))),
    "numbers": ({"size": "8", "classes": "3,7", "label": "digit"}, pixel_schema(8, 8, labels=(3, 7), label="digit")),
    "some names": ({"size": "8", "classes": "3,x"}, pixel_schema(8, 8, labels=("3", "x"))),
    "unlabelled": ({"size": "8", "unlabelled": True}, pixel_schema(8, 8)),
    "an empty label": ({"size": "8", "label": ""}, pixel_schema(8, 8)),
    "rules": (
        {"size": "8", "classes": "2", "resize": "pad", "convert": True},
        pixel_schema(8, 8, labels=(0, 1), resize="pad", convert=True),
    ),
}


@pytest.mark.parametrize("case", GIVEN)
def test_options_say_what_a_schema_says(case):
    options, expected = GIVEN[case]
    assert RunOptions(**options).known() == expected


def test_a_schema_with_every_name_is_not_needed_to_read_one(gallery, cli):
    ended = cli(
        "schema", "init", "--images", "--size", 8, "--channels", 3, "--classes", "cat,dog", "-o", gallery.schema
    )
    assert ended.code == 0, ended.err
    assert "8 x 8 x 3 pixels with 2 labels in 'label'" in " ".join(ended.err.split())
    assert Schema.from_toml(gallery.schema) == pixel_schema(8, 8, 3, labels=("cat", "dog"))
    ended = cli("schema", "check", gallery.schema)
    assert ended.code == 0 and "images of 8 x 8 x 3 pixels" in " ".join(ended.out.split())
    assert "pixel_0_0" not in ended.out
    assert cli("schema", "check", gallery.schema, "--json").json["digest"] == Schema.from_toml(gallery.schema).digest()
