"""`noisegate evaluate --images`: what it is told, what it reads and what it prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from noisegate.cli.console import ERR, OUT, print_json, steps
from noisegate.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from noisegate.evaluation.image_reading import ImageSet
    from noisegate.schema import Schema

NOT_FOR_IMAGES = ("jobs", "image", "augment", "picture")
FOR_IMAGES = ("features", "weights", "most", "nearest", "on-error")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was said on the command line.

    Attributes:
        synthetic: where the synthetic images are.
        test: where the real ones are that the fit did not use.
        train: where those are that it used, or None.
        classifiers: names, separated by commas.
        seed: public.
        given: the options that were given, by name without the dashes.
        show_values: whether errors may quote private values.
        as_json: whether to print JSON.
    """

    synthetic: Path
    test: Path
    train: Path | None
    classifiers: str
    seed: int
    given: Mapping[str, object]
    show_values: bool
    as_json: bool

    def text(self, name: str, default: str) -> str:
        """Give an option that is text."""
        return str(self.given.get(name, default))

    def number(self, name: str, default: int) -> int:
        """Give an option that is a whole number."""
        return int(str(self.given.get(name, default)))

    def path(self, name: str) -> Path | None:
        """Give an option that is a path."""
        return Path(str(self.given[name])) if name in self.given else None


def check_given(given: Mapping[str, object], *, images: bool) -> None:
    """Refuse options of the other kind of evaluation.

    Raises:
        OptionError: one was given.
    """
    for name in NOT_FOR_IMAGES if images else FOR_IMAGES:
        if name in given:
            cure = "leave it out" if images else "add --images, or leave it out"
            raise OptionError(f"--{name} is {'not ' if images else ''}for --images; {cure}")


def evaluate_images(asked: Asked, schema: Schema) -> None:
    """Read the images, measure, and print.

    Raises:
        UserError: an option or the images are unusable.
    """
    from noisegate.evaluation.image_classifiers import read_classifiers
    from noisegate.evaluation.image_distances import IMAGES
    from noisegate.evaluation.image_features import named_features
    from noisegate.evaluation.image_report import evaluate_images as measure
    from noisegate.evaluation.selection_training import SelectionRecipe
    from noisegate.report.nearest import PREFIX, nearest_picture

    check_given(asked.given, images=True)
    if schema.images is None:
        raise SchemaError("--images: the schema describes a table; describe images under [images]")
    default = SelectionRecipe()
    recipe = SelectionRecipe(epochs=asked.number("epochs", default.epochs), device=asked.text("device", "auto"))
    classifiers = read_classifiers(asked.classifiers, repeats=asked.number("repeats", 1), selection=recipe)
    features = named_features(asked.text("features", "encoder"), asked.path("weights"))
    picture = asked.path("nearest")
    if picture and (asked.train is None or not picture.name.startswith(PREFIX)):
        raise OptionError(f"--nearest shows private records: give --train, and a file whose name starts with {PREFIX}")
    with ERR.status("Reading"):
        made, held_out = (_read(path, schema, asked) for path in (asked.synthetic, asked.test))
        used = None if asked.train is None else _read(asked.train, schema, asked)
    if picture and used is not None:
        nearest_picture(made, used, picture, seed=asked.seed)
    total = classifiers.count * (1 if used is None else 2)
    with steps("Training classifiers and measuring distances", total) as update:
        report = measure(
            made,
            held_out,
            schema,
            used,
            classifiers=classifiers,
            features=features,
            images=asked.number("most", IMAGES),
            seed=asked.seed,
            progress=lambda name, done, _: update(done, name),
        )
    if asked.as_json:
        print_json(report.to_json())
    else:
        OUT.print(report.render())


def _read(path: Path, schema: Schema, asked: Asked) -> ImageSet:
    from noisegate.data.sources import open_source
    from noisegate.evaluation.image_reading import images_of

    on_error = asked.text("on-error", "refuse")
    return images_of(open_source(path, schema, show_values=asked.show_values, on_error=on_error).batches(), schema)
