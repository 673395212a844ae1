"""`noisegate explain`: what a classifier answers to, and why it predicts what it predicts."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.cli.arguments import Json
from noisegate.cli.console import OUT, print_json, table
from noisegate.cli.writing import new_file
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.schema.pixels import ImageShape

_CLASSES = 5


def explain_command(
    model: Annotated[Path, typer.Argument(help="Folder that `noisegate fit --method dp-llm --out` wrote.")],
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Records of your own to explain, CSV or Parquet; the label may be left out."),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Explain this class only. Default: all; with --record the predicted.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many columns to show.")] = 10,
    image: Annotated[
        str | None,
        typer.Option(
            "--image", metavar="H,W[,C]", help="With --picture: the size of images in pixels, unless the schema tells."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw the maps to this PNG, where the columns are pixels.")
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show the values of --record, in errors and in the picture too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what each class of a classifier answers to, or why single records are predicted as they are.

    Costs no privacy: the maps have left the gate. What is shown of --record is as private as that file.

    Example: `noisegate explain model --record patient.csv`
    """
    from noisegate.cli.explaining import asked_records, class_filters, class_named, draw_maps, record_reasons
    from noisegate.models.locally_linear import LocallyLinear

    classifier = LocallyLinear.load(model)
    images = classifier.release.schema.images
    shape = images.shape if images and picture and image is None else _shape(image, picture)
    wanted = None if label is None else class_named(classifier, label)
    asked = None if record is None else asked_records(record, classifier, show_values)
    with new_file(picture, "--picture") if picture else nullcontext() as drawing:
        if drawing and shape:
            draw_maps(classifier, asked, wanted, shape, drawing, show_values)
        if asked is None:
            found = [
                class_filters(classifier, one, top) for one in ([wanted] if label is not None else classifier.classes)
            ]
        else:
            found = record_reasons(classifier, asked, wanted, top, show_values)
    if as_json:
        print_json({"model": str(model), "filters" if asked is None else "records": found})
    elif asked is None:
        _show_filters(found)
    else:
        _show_reasons(found)


def _show_filters(found: list[dict[str, Any]]) -> None:
    for one in found:
        rows = [[each["input"], f"{each['weight']:+.3g}", f"{each['spread']:.3g}"] for each in one["inputs"]]
        headings = {"column": "left", "weight": "right", "spread": "right"}
        OUT.print(table(f"What {one['label']} answers to", headings, rows))
    OUT.print(
        "weight: how much the score of the class gains above the others while the column goes from its lower to its "
        "upper bound, or the level comes up, in the mean of its linear maps; spread: how far these differ."
    )


def _show_reasons(found: list[dict[str, Any]]) -> None:
    for number, one in enumerate(found, start=1):
        likely = sorted(one["probabilities"].items(), key=lambda pair: -pair[1])[:_CLASSES]
        chances = ", ".join(f"{name} {chance:.3f}" for name, chance in likely)
        told = [*one["for"], *reversed(one["against"])]
        headings = {"column": "left", f"adds to {one['label']}": "right"}
        if any("value" in each for each in told):
            headings["value"] = "left"
        rows = [
            [each["column"], f"{each['adds']:+.3g}", *([str(each["value"])] if "value" in each else [])]
            for each in told
        ]
        # A title would be as narrow as its table.
        OUT.print(f"Record {number}: {chances}", style="bold", markup=False)
        OUT.print(table("", headings, rows))
    OUT.print(
        "adds: to the score of the class above the mean of the others, by the linear map at this record; what is "
        "below zero speaks against it. The probabilities are not calibrated."
    )


def _shape(image: str | None, picture: Path | None) -> ImageShape | None:
    from noisegate.schema.pixels import ImageShape

    if (image is None) != (picture is None):
        raise OptionError(
            "--picture and --image go together: a picture of maps is drawn of columns that are pixels, for instance "
            "--image 28,28 --picture maps.png."
        )
    if image is None:
        return None
    sizes = [part.strip() for part in image.split(",")]
    if len(sizes) not in (2, 3) or not all(part.isdecimal() for part in sizes):
        raise OptionError(f"--image {image!r} must be height, width and maybe channels, for instance 28,28 or 32,32,3.")
    height, width, channels = [*map(int, sizes), 1][:3]
    return ImageShape(height=height, width=width, channels=channels)
