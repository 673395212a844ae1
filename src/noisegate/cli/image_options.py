"""The options that describe images: what a schema file would say, said on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.schema import Schema

_PANEL = "Images: public knowledge, instead of --schema"

Size = Annotated[
    str | None,
    typer.Option(
        "--size", metavar="N|HEIGHT,WIDTH", help="Height and width in pixels: 28, or 32,48.", rich_help_panel=_PANEL
    ),
]
Channels = Annotated[
    int | None, typer.Option("--channels", help="1 for grey (default), 3 for colour.", rich_help_panel=_PANEL)
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="N|NAME,NAME,...",
        help="Every label that there may be: 10 for 0 to 9, or their names, as in cat,dog.",
        rich_help_panel=_PANEL,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="Name of the column of labels: in Parquet of DATA, in all that is made. Default: label.",
        rich_help_panel=_PANEL,
    ),
]
Unlabelled = Annotated[
    bool, typer.Option("--unlabelled", help="The images have no labels; so does --label ''.", rich_help_panel=_PANEL)
]
Resize = Annotated[
    str | None,
    typer.Option(
        "--resize",
        metavar="RULE",
        help="Images of another size: refuse (default), stretch, crop or pad.",
        rich_help_panel=_PANEL,
    ),
]
Convert = Annotated[
    bool,
    typer.Option("--convert", help="Turn colour into grey, or grey into colour, as needed.", rich_help_panel=_PANEL),
]
OnError = Annotated[
    str,
    typer.Option(
        "--on-error",
        metavar="refuse|skip",
        help="Images that cannot be read: refuse the run (default), or skip them; you alone are told how many.",
    ),
]

NAMES = ("size", "channels", "classes", "label", "unlabelled", "resize", "convert")
_EXAMPLE = "for instance --size 28 --channels 1 --classes 10"


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that describe images and were given, by name, out of all options of a verb."""
    given = {name: options.get(name) for name in NAMES}
    return {name: value for name, value in given.items() if value is not None and value is not False}


def written(options: Mapping[str, Any]) -> str:
    """Returns options as they stand on a command line."""
    return " ".join(f"--{name}" if value is True else f"--{name} {value}" for name, value in options.items())


def described_schema(path: Path | None, options: Mapping[str, Any]) -> Schema:
    """Returns the schema in a file, or the one that the options of images describe.

    Args:
        path: Of the file, or None.
        options: Of the verb, by name; those that do not describe images are not looked at.

    Raises:
        OptionError: if both are given, or neither, or an option is unusable.
        SchemaError: if they describe no schema, or images that this machine has not the memory for.
    """
    from noisegate.cli.arguments import require_schema
    from noisegate.schema import Schema
    from noisegate.schema.pixels import fit_bytes, require_memory

    given = given_options(options)
    if given and path is not None:
        raise OptionError(
            f"--schema {path} and {written(given)} both describe the records; leave one of them out. (`noisegate "
            "schema init --images` writes the options into a file.)"
        )
    schema = image_schema(given) if given else Schema.from_toml(require_schema(path))
    if schema.images is not None:
        require_memory(schema.images.shape, fit_bytes(schema.images.shape), "a fit to them")
    return schema


def image_schema(given: Mapping[str, Any]) -> Schema:
    """Returns the schema of images that the options describe.

    Args:
        given: The options, by name; at least --size, and --classes or --unlabelled.

    Raises:
        OptionError: if one is missing or unusable.
        SchemaError: if they describe no schema.
    """
    from noisegate.schema import pixel_schema

    if "size" not in given:
        raise OptionError(f"{written(given)} describes images, whose --size is missing; {_EXAMPLE}.")
    height, width = _size(given["size"])
    rules = {name: given[name] for name in ("resize", "convert") if name in given}
    channels = given.get("channels", 1)
    if channels not in (1, 3):
        raise OptionError(f"--channels {channels} must be 1 for grey or 3 for colour.")
    if given.get("unlabelled") or given.get("label") == "":
        if "classes" in given or given.get("label"):
            raise OptionError("--unlabelled: images without labels have no --classes and no --label; leave them out.")
        return pixel_schema(height, width, channels, labels=None, **rules)
    if "classes" not in given:
        raise OptionError(
            "--classes is missing: which labels there may be is public knowledge; read off private images it would "
            "tell that somebody has a rare one. Give their number or their names, or --unlabelled if there are none."
        )
    label = given.get("label", "label")
    return pixel_schema(height, width, channels, labels=_labels(given["classes"]), label=label, **rules).usable()


def _size(text: str) -> tuple[int, int]:
    sides = [side.strip() for side in text.split(",")]
    if len(sides) > 2 or not all(side.isascii() and side.isdecimal() for side in sides):
        raise OptionError(f"--size {text!r} must be a number of pixels, as 28, or HEIGHT,WIDTH, as 32,48.")
    return int(sides[0]), int(sides[-1])


def _labels(text: str) -> list[str] | list[int]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise OptionError(f"--classes {text!r}: a name is empty; give a number, or names as in cat,dog.")
    numbers = all(name.isascii() and name.isdecimal() for name in names)
    if len(names) > 1:
        return [int(name) for name in names] if numbers else names
    if not numbers or int(text) < 1:
        raise OptionError(f"--classes {text!r} must be the number of labels, 1 or more, or all their names: cat,dog.")
    return list(range(int(text)))
