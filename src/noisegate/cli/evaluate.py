"""`noisegate evaluate`: how useful are the synthetic records?"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.cli.arguments import Json, SchemaOption, require_schema
from noisegate.cli.console import ERR, OUT, print_json, steps
from noisegate.cli.evaluate_images import Asked, check_given, evaluate_images
from noisegate.cli.reading import say_files
from noisegate.cli.writing import new_file
from noisegate.errors import OptionError
from noisegate.seeds import MOST_EVALUATION_SEED

if TYPE_CHECKING:
    from noisegate.evaluation.choice import Choice
    from noisegate.evaluation.networks_report import NetworkOptions
    from noisegate.schema import Schema


def evaluate(
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
    from noisegate.evaluation.choice import read_choice
    from noisegate.schema import Schema

    pictures = {"features": features, "weights": weights, "most": most, "nearest": nearest, "on-error": on_error}
    trained = {"image": image, "repeats": repeats, "epochs": epochs, "augment": augment, "device": device}
    tables = {"jobs": jobs, "picture": picture}
    given = {name: value for name, value in (pictures | trained | tables).items() if value is not None}
    chosen = classifiers or ("cnn" if images else "three")
    asked = Asked(
        synthetic=synthetic,
        test=test,
        train=train,
        classifiers=chosen,
        seed=seed,
        given=given,
        show_values=show_values,
        as_json=as_json,
    )
    if images:
        evaluate_images(asked, Schema.from_toml(require_schema(schema)))
        return
    check_given(given, images=False)
    choice = read_choice(chosen)
    options = _network_options(choice, {name: value for name, value in given.items() if name in trained})
    _evaluate_tables(asked, Schema.from_toml(require_schema(schema)), choice, options, jobs=jobs, picture=picture)


def _evaluate_tables(
    asked: Asked, schema: Schema, choice: Choice, options: NetworkOptions, *, jobs: int | None, picture: Path | None
) -> None:
    """Reads tables, measures them and prints the report."""
    from noisegate.data.frames import read_table
    from noisegate.evaluation import evaluate as measure
    from noisegate.evaluation.images import find_pixels

    if choice.networks:
        find_pixels(schema, options.image)
    for path in filter(None, (asked.synthetic, asked.test, asked.train) if schema.images is None else ()):
        say_files(path)
    with new_file(picture, "--picture") if picture else nullcontext() as drawing:
        with ERR.status("Reading"):
            made = read_table(asked.synthetic, schema, show_values=asked.show_values)
            held_out = read_table(asked.test, schema, show_values=asked.show_values)
            used = read_table(asked.train, schema, show_values=asked.show_values) if asked.train else None
        total = choice.count(options.repeats) * (1 if used is None else 2)
        with steps("Training classifiers and counting marginals", total) as update:
            report = measure(
                made,
                held_out,
                schema,
                used,
                seed=asked.seed,
                classifiers=asked.classifiers,
                networks=options,
                jobs=jobs,
                progress=lambda name, done, _: update(done, name),
            )
        if drawing:
            from noisegate.report import comparison_picture

            comparison_picture(made, held_out if used is None else used, schema, drawing)
    if asked.as_json:
        print_json(report.to_json())
    else:
        OUT.print(report.render())


def _network_options(choice: Choice, given: dict[str, Any]) -> NetworkOptions:
    """What was said about the networks; an error where no network is trained."""
    from noisegate.evaluation.image_training import Training, device_name
    from noisegate.evaluation.images import read_image
    from noisegate.evaluation.networks_report import REPEATS, NetworkOptions

    if given and not choice.networks:
        name = next(iter(given))
        raise OptionError(f"--{name} is for networks; add --classifiers networks, or leave it out")
    if not choice.networks:
        return NetworkOptions()
    training = Training(**{name: given[name] for name in ("epochs", "augment", "device") if name in given})
    device_name(training)
    shape = read_image(given["image"]) if "image" in given else None
    return NetworkOptions(image=shape, repeats=given.get("repeats", REPEATS), training=training)
