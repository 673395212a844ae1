"""Images described on the command line: the same as in a schema file, or a message that teaches."""

import pytest

from noisegate.cli.options import RunOptions
from noisegate.errors import OptionError
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


WRONG = {
    "a file too": (["--schema", "images.toml", "--size", "8"], "images.toml and --size 8 both describe"),
    "a file and no label": (["--schema", "images.toml", "--unlabelled"], "and --unlabelled both describe"),
    "no size": (["--classes", "10"], "--classes 10 describes images, whose --size is missing"),
    "only a label": (["--label", "sex"], "--label sex describes images"),
    "no classes": (["--size", "8"], "--classes is missing"),
    "classes of nothing": (["--size", "8", "--unlabelled", "--classes", "2"], "--unlabelled"),
    "a size in words": (["--size", "large", "--classes", "2"], "--size 'large'"),
    "a cube": (["--size", "8,8,1", "--classes", "2"], "--size '8,8,1'"),
    "a size below one": (["--size", "0", "--classes", "2"], "height=0"),
    "a size beyond all": (["--size", "9999", "--classes", "2"], "9999"),
    "one name": (["--size", "8", "--classes", "cat"], "--classes 'cat'"),
    "no class": (["--size", "8", "--classes", "0"], "--classes '0'"),
    "an empty name": (["--size", "8", "--classes", "cat,,dog"], "a name is empty"),
    "a name twice": (["--size", "8", "--classes", "cat,cat"], "cat"),
    "a rule": (["--size", "8", "--classes", "2", "--resize", "guess"], "guess"),
    "channels": (["--size", "8", "--classes", "2", "--channels", "0"], "--channels 0"),
    "nothing": ([], "--size 28"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_meant_is_named(gallery, cli, case):
    options, says = WRONG[case]
    pixel_schema(8, 8, labels=(0, 1)).to_toml(gallery.schema)
    before = gallery.listing()
    for arguments in (["plan", "--epsilon", 1, *options], gallery.fit(described=options)):
        ended = cli(*arguments)
        assert ended.code == 2
        assert says in ended.err
    assert gallery.listing() == before
    assert gallery.account().spent == 0


def test_a_schema_with_every_name_is_not_needed_to_read_one(gallery, cli):
    ended = cli(
        "schema", "init", "--images", "--size", 8, "--channels", 3, "--classes", "cat,dog", "-o", gallery.schema
    )
    assert ended.code == 0, ended.err
    assert "8 x 8 x 3 pixels with 2 labels in 'label'" in " ".join(ended.err.split())
    assert Schema.from_toml(gallery.schema) == pixel_schema(8, 8, 3, labels=("cat", "dog"))
    ended = cli("schema", "check", gallery.schema)
    assert ended.code == 0
    assert "images of 8 x 8 x 3 pixels" in " ".join(ended.out.split())
    assert "pixel_0_0" not in ended.out
    assert cli("schema", "check", gallery.schema, "--json").json["digest"] == Schema.from_toml(gallery.schema).digest()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--images", "--size", "8"], "--classes is missing"),
        (["--images"], "--size is missing"),
        (["--images", "scans", "--size", "8", "--classes", "2"], "leave scans out"),
        (["--size", "8", "--classes", "2"], "add --images"),
        ([], "PUBLIC is missing"),
    ],
)
def test_schema_init_of_images_refuses_what_it_cannot_write(gallery, cli, options, says):
    before = gallery.listing()
    ended = cli("schema", "init", *options, "-o", gallery.schema)
    assert ended.code == 2
    assert says in " ".join(ended.err.split())
    assert gallery.listing() == before


def test_an_error_before_the_command_line_has_a_name():
    with pytest.raises(OptionError, match="--schema is required"):
        RunOptions().known()


@pytest.mark.parametrize("method", ["auto", "dp-merf", "dp-hp"])
def test_a_plan_of_images(cli, method):
    ended = cli("plan", "--size", 28, "--classes", 10, "--epsilon", 1, "--records", 60000, "--method", method, "--json")
    assert ended.code == 0, ended.err
    plan = ended.json
    assert plan["method"] == ("joint" if method == "auto" else method)
    assert (plan["reason"] is not None) == (method == "auto")
    assert all(release["columns"] in (1, 10) for release in plan["releases"])


def test_a_plan_of_images_for_people(cli):
    ended = cli("plan", "--size", 28, "--classes", 10, "--epsilon", 1)
    assert (ended.code, ended.err) == (0, "")
    assert "joint: the records are images of 28 x 28 x 1 pixels with 10 labels." in " ".join(ended.out.split())
    assert all(len(line) <= 80 for line in ended.out.splitlines())


@pytest.mark.parametrize("verb", ["fit", "plan", "sample"])
def test_help_has_an_example_of_images(cli, verb):
    ended = cli(verb, "--help")
    assert ended.code == 0
    assert "Images:" in ended.out
    assert ("--grid" if verb == "sample" else "--classes") in ended.out
