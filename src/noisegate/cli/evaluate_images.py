"""What `noisegate evaluate` is told, reads and prints, and its form for images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from noisegate.cli.console import ERR, OUT, print_json, steps
from noisegate.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from noisegate.evaluation import Suite
    from noisegate.records import Images
    from noisegate.schema import Schema

NOT_FOR_IMAGES = ("jobs", "image", "augment", "picture")
FOR_IMAGES = ("features", "weights", "most", "nearest", "on-error")

_Records = TypeVar("_Records")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What was said on the command line.

    Attributes:
        synthetic: where the synthetic records are.
        test: where the real ones are that the fit did not use.
        train: where those are that it used, or None.
        classifiers: names, separated by commas.
        seed: public.
        given: the other options that were given, by name without the dashes.
        show_values: whether errors may quote private values.
        as_json: whether to print JSON.
    """

    synthetic: Path
    test: Path
    train: Path | None
    classifiers: str
    seed: int
    given: Mapping[str, Any]
    show_values: bool
    as_json: bool

    def check(self, *, images: bool) -> None:
        """Refuse options of the other kind of evaluation.

        Raises:
            OptionError: one was given.
        """
        for name in NOT_FOR_IMAGES if images else FOR_IMAGES:
            if name in self.given:
                cure = "leave it out" if images else "add --images, or leave it out"
                raise OptionError(f"--{name} is {'not ' if images else ''}for --images; {cure}")

    def some(self, *names: str) -> dict[str, Any]:
        """Give those of the options that were given."""
        return {name: self.given[name] for name in names if name in self.given}

    def read(self, read: Callable[[Path], _Records]) -> tuple[_Records, _Records, _Records | None]:
        """Read the synthetic, the test and the training records."""
        with ERR.status("Reading"):
            return read(self.synthetic), read(self.test), None if self.train is None else read(self.train)

    def measure(self, doing: str, suite: Suite, evaluate: Callable[..., Any], *records: Any, **more: Any) -> Any:
        """Return the report, made under a line of progress."""
        with steps(doing, suite.count * (1 if self.train is None else 2)) as update:
            return evaluate(
                *records,
                classifiers=suite,
                seed=self.seed,
                progress=lambda name, done, _: update(done, name),
                **more,
            )

    def print(self, report: Any) -> None:
        """Print a report, as JSON where that was asked for."""
        if self.as_json:
            print_json(report.to_json())
        else:
            OUT.print(report.render())


def evaluate_images_command(options: EvaluateOptions, schema: Schema) -> None:
    """Read the images, measure, and print.

    Raises:
        UserError: an option or the images are unusable.
    """
    from noisegate.evaluation import SelectionRecipe, named_features, read_classifiers
    from noisegate.evaluation import evaluate_images as evaluate
    from noisegate.evaluation.image_distances import IMAGES
    from noisegate.report.nearest import PREFIX, nearest_picture

    options.check(images=True)
    if schema.images is None:
        raise SchemaError("--images: the schema describes a table; describe images under [images]")
    recipe = SelectionRecipe(**options.some("epochs", "device"))
    suite = read_classifiers(options.classifiers, selection=recipe, **options.some("repeats"))
    features = named_features(options.given.get("features", "encoder"), options.given.get("weights"))
    picture = options.given.get("nearest")
    if picture and (options.train is None or not picture.name.startswith(PREFIX)):
        raise OptionError(f"--nearest shows private records: give --train, and a file whose name starts with {PREFIX}")
    made, held_out, used = options.read(lambda path: _read(path, schema, options))
    if picture and used is not None:
        nearest_picture(made, used, picture, seed=options.seed)
    doing, most = "Training classifiers and measuring distances", options.given.get("most", IMAGES)
    report = options.measure(doing, suite, evaluate, made, held_out, schema, used, features=features, images=most)
    options.print(report)


def _read(path: Path, schema: Schema, options: EvaluateOptions) -> Images:
    from noisegate.data.sources import open_source
    from noisegate.evaluation import images_of

    on_error = options.given.get("on-error", "refuse")
    return images_of(open_source(path, schema, show_values=options.show_values, on_error=on_error).batches(), schema)
