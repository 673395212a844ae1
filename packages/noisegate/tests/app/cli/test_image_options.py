"""Images described on the command line: the same as in a schema file, or a message that teaches."""

import pytest

from noisegate.app.cli.options import FitOptions
from noisegate.schema import pixel_schema

GIVEN = {
    "digits": ({"size": "28", "classes": "10"}, pixel_schema(28, 28, labels=range(10))),
    "names": (
        {"size": "32,48", "classes": "cat, dog", "channels": 3},
        pixel_schema(32, 48, 3, labels=("cat", "dog")),
    ),
    "numbers": (
        {"size": "8", "classes": "3,7", "label": "digit"},
        pixel_schema(8, 8, labels=(3, 7), label="digit"),
    ),
    "some names": (
        {"size": "8", "classes": "3,x"},
        pixel_schema(8, 8, labels=("3", "x")),
    ),
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
    assert FitOptions.of(**options).read_schema() == expected
