"""`noisegate evaluate`: how useful are the synthetic records?"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.cli.arguments import Json, SchemaOption, require_schema
from noisegate.cli.console import say_files
from noisegate.cli.evaluate_images import EvaluateOptions, evaluate_images_command
from noisegate.cli.writing import new_file
from noisegate.errors import OptionError
from noisegate.seeds import MOST_EVALUATION_SEED

if TYPE_CHECKING:
    from noisegate.evaluation import NetworkOptions, Suite
    from noisegate.schema import Schema


def evaluate_command(
    synthetic: Annotated[Path, typer.Option("--synthetic", help="Synthetic records, CSV or Parquet; or images.")],
    test: Annotated[Path, typer.Option("--test", help="Real records that the fit did not use.")],
    schema: SchemaOption = None,
    train: Annotated[
        Path | None, typer.Option("--train", help="Real records that the fit used: gives the ceiling to compare with.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", min=0, max=MOST_EVALUATION_SEED, help="Of the classifiers and of the choice of triples."
        ),
    ] = 0,
    images: Annotated[
        bool,
        typer.Option(
            "--images",
            help="Measure images: classifiers chosen by synthetic images alone, Fréchet and kernel distance, precision "
            "and recall, different bins. The schema is one of images.",
        ),
    ] = False,
    classifiers: Annotated[
        str | None,
        typer.Option(
            "--classifiers",
            help="three (default); twelve: those of the papers, slower; for pixel columns networks, or some of them: "
            "convnet, lenet, alexnet, vgg11, resnet18, mlp. With --images: some of cnn (default), resnet, wrn, "
            "logistic, mlp, twelve.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Of twelve or networks: how many run side by side. Default: every core."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image", metavar="H,W,C", help="With networks: shape of the images, where column names do not tell it."
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", help="With networks: fresh starts of each. Default: 3; with --images 1.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", help="With networks. Default: 300, or 1000 with --augment; with --images 6."),
    ] = None,
    augment: Annotated[
        bool | None, typer.Option("--augment", help="With networks: train on shifted, scaled and turned images.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="With networks: auto (default), cpu, cuda or mps.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            help="With --images, what distances are measured in: encoder (default), inception-v3 or pixels.",
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option("--weights", help="With inception-v3: the file. Default: the cache of torch.")
    ] = None,
    most: Annotated[
        int | None,
        typer.Option("--most", min=2, help="With --images: images of each set for distances. Default: 10,000."),
    ] = None,
    nearest: Annotated[
        Path | None,
        typer.Option(
            "--nearest",
            help="With --images and --train: draw synthetic images beside the nearest PRIVATE ones into this PNG, "
            "whose name starts with private-.",
        ),
    ] = None,
    on_error: Annotated[
        str | None, typer.Option("--on-error", help="With --images, for pictures that cannot be used: refuse or skip.")
    ] = None,
    picture: Annotated[Path | None, typer.Option("--picture", help="Write a comparison picture to this PNG.")] = None,
    show_values: Annotated[bool, typer.Option("--show-values", help="Let errors quote private values.")] = False,
    as_json: Json = False,
) -> None:
    """Train on synthetic, test on real, and compare marginals.

    The figures are computed on real data and are not covered by the guarantee: keep them private.

    Example: `noisegate evaluate --synthetic synthetic.csv --test real_test.csv --schema schema.toml`

    Images: `noisegate evaluate --images --synthetic out.parquet --test TEST_FOLDER --schema images.toml`
    """
    from noisegate.schema import Schema

    pictures = {"features": features, "weights": weights, "most": most, "nearest": nearest, "on-error": on_error}
    trained = {"image": image, "repeats": repeats, "epochs": epochs, "augment": augment, "device": device}
    others = {"jobs": jobs, "picture": picture}
    options = EvaluateOptions(
        synthetic=synthetic,
        test=test,
        train=train,
        classifiers=classifiers or ("cnn" if images else "three"),
        seed=seed,
        given={name: value for name, value in (pictures | trained | others).items() if value is not None},
        show_values=show_values,
        as_json=as_json,
    )
    if images:
        evaluate_images_command(options, Schema.from_toml(require_schema(schema)))
        return
    options.check(images=False)
    suite, networks = _suite(options.classifiers, options.some(*trained))
    _evaluate_tables(options, Schema.from_toml(require_schema(schema)), suite, networks)


def _evaluate_tables(options: EvaluateOptions, schema: Schema, suite: Suite, networks: NetworkOptions) -> None:
    """Reads tables, measures them and prints the report."""
    from noisegate.data.frames import read_table
    from noisegate.evaluation import evaluate as measure
    from noisegate.evaluation.images import find_pixels
    from noisegate.report import comparison_picture

    if suite.name == "networks":
        find_pixels(schema, networks.image)
    for path in filter(None, (options.synthetic, options.test, options.train) if schema.images is None else ()):
        say_files(path)
    picture = options.given.get("picture")
    with new_file(picture, "--picture") if picture else nullcontext() as drawing:
        made, test, used = options.read(lambda path: read_table(path, schema, show_values=options.show_values))
        doing, more = "Training classifiers and counting marginals", options.some("jobs")
        report = options.measure(doing, suite, measure, made, test, schema, used, networks=networks, **more)
        if drawing:
            comparison_picture(made, test if used is None else used, schema, drawing)
    options.print(report)


def _suite(classifiers: str, given: dict[str, Any]) -> tuple[Suite, NetworkOptions]:
    """What is trained, and what was said about networks; an error where no network is trained."""
    from noisegate.evaluation.images import read_image
    from noisegate.evaluation.utility.network_settings import REPEATS, NetworkOptions, Training
    from noisegate.evaluation.utility.suites import read_suite

    suite = read_suite(classifiers)
    if suite.name != "networks":
        for name in given:
            raise OptionError(f"--{name} is for networks; add --classifiers networks, or leave it out")
        return suite, NetworkOptions()
    training = Training(**{name: given[name] for name in ("epochs", "augment", "device") if name in given})
    shape = read_image(given["image"]) if "image" in given else None
    options = NetworkOptions(image=shape, repeats=given.get("repeats", REPEATS), training=training)
    suite = read_suite(classifiers, options)
    _ = suite.recipes[0].device  # an error where it is not there, before anything is read
    return suite, options
