"""`noisegate explain` and `noisegate predict`: what a classifier depends on, and what it says of records, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from noisegate.app.cli.console import ERR, OUT, print_json, say, show_progress, table
from noisegate.app.cli.options import Json
from noisegate.atomic import check_outside, new_file
from noisegate.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisegate.records import Rows
    from noisegate.schema.pixels import ImageShape
    from noisegate_papers.models.locally_linear import LocallyLinear
    from noisegate_papers.models.released_classifier import ReleasedClassifier

MOST_RECORDS, MOST_MAPS, MOST_CLASSES = 20, 12, 5


def explain_command(
    model: Annotated[
        Path, Argument(help="Folder that `noisegate fit --method dp-llm --out` wrote.")
    ],
    record: Annotated[
        Path | None,
        Option(
            help="Records of your own to explain, CSV or Parquet; the label may be left out."
        ),
    ] = None,
    label: Annotated[
        str | None,
        Option(
            help="Explain this class only. Default: all; with --record the predicted."
        ),
    ] = None,
    top: Annotated[int, Option(min=1, help="How many columns to show.")] = 10,
    image: Annotated[
        str | None,
        Option(
            metavar="H,W[,C]",
            help="With --picture: the size of images in pixels, unless the schema tells.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        Option(help="Draw the maps to this PNG, where the columns are pixels."),
    ] = None,
    show_values: Annotated[
        bool,
        Option(
            "--show-values",
            help="Show the values of --record, in errors and in the picture too.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what each class depends on, or why single records are predicted as they are.

    Costs no privacy: the classifier is already released. What is shown of --record is as private as that file.

    Example: `noisegate explain model --record patient.csv`
    """
    from noisegate.records import Rows
    from noisegate_papers.models.locally_linear import LocallyLinear

    classifier = LocallyLinear.load(model)
    images = classifier.release.schema.images
    shape = (
        images.shape if images and picture and image is None else _shape(image, picture)
    )
    wanted = None if label is None else _class_named(classifier, label)
    records = None
    if record is not None:
        read = _labelled(record, classifier, labelled=False, show_values=show_values)
        records = Rows.concatenate([batch for batch, _ in read])
        if len(records) > MOST_RECORDS:
            cure = "give fewer, or take `noisegate predict`."
            raise OptionError(
                f"--record {record} has more than {MOST_RECORDS} records; {cure}"
            )
    with new_file(picture, "picture") if picture else nullcontext() as drawing:
        if drawing and shape:
            _draw(classifier, records, wanted, shape, drawing, show_values)
        if records is None:
            classes = classifier.classes if label is None else [wanted]
            told = {
                "filters": [_class_filters(classifier, one, top) for one in classes]
            }
        else:
            told = {
                "records": record_reasons(classifier, records, wanted, top, show_values)
            }
    if as_json:
        print_json({"model": str(model), **told})
    elif records is None:
        _show_filters(told["filters"])
    else:
        _show_reasons(told["records"])


def predict_command(
    model: Annotated[
        Path,
        Argument(
            help="Folder that `noisegate fit --method dp-llm --out` wrote, or one of dp-sgd."
        ),
    ],
    data: Annotated[
        Path,
        Argument(
            help="Records of your own, CSV or Parquet; the label may be left out."
        ),
    ],
    out: Annotated[
        Path, Option("--out", "-o", help="File to write: .csv or .parquet.")
    ],
    score: Annotated[
        bool,
        Option(
            "--score",
            help="DATA has the labels: also tell the share that is right, as private as DATA.",
        ),
    ] = False,
    show_values: Annotated[
        bool, Option("--show-values", help="Let errors quote values of DATA.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict the label of records. Costs no privacy, however often it runs.

    Writes the label and the probability of each class, which is not calibrated, and nothing else of the records. The
    file is as private as DATA: only you can read it, unless you change its permissions.

    Example: `noisegate predict model new.csv -o predictions.csv`
    """
    import pyarrow as pa

    from noisegate.models.output.sample_file import table_writer
    from noisegate.schema import Schema
    from noisegate_papers.models.released_classifier import load_classifier

    check_outside(out, data)
    classifier = load_classifier(model)
    label = classifier.release.schema.label_column
    assert label is not None
    done = right = 0
    with (
        table_writer(out, Schema((label,)), owner_only=True) as write,
        show_progress("Predicting", None) as progress,
    ):
        for records, labels in _labelled(
            data, classifier, labelled=score, show_values=show_values
        ):
            chances = classifier.probabilities(records)
            right += int((chances.argmax(axis=1) == labels).sum())
            predicted = [classifier.classes[k] for k in chances.argmax(axis=1)]
            columns = {
                f"probability of {one}": chances[:, k]
                for k, one in enumerate(classifier.classes)
            }
            write(pa.table({label.name: predicted, **columns}))
            done += len(records)
            # The records are somebody's, and the lines of a scheduler are read by others.
            progress(done, f"{done:,}" if ERR.is_terminal else "")
    accuracy = right / done if score and done else None
    if as_json:
        print_json(
            {"records": done, "out": str(out)}
            | ({"accuracy": accuracy} if score else {})
        )
    else:
        told = "" if accuracy is None else f" {accuracy:.4f} of them are right."
        say(f"Wrote {done:,} predictions to {out}.{told}")


def _labelled(
    path: Path, classifier: ReleasedClassifier, *, labelled: bool, show_values: bool
) -> Iterator[tuple[Rows, npt.NDArray[np.integer[Any]]]]:
    """Yields the records in a file, encoded without their label, beside the codes of that, -1 unless `labelled`."""
    import numpy as np

    from noisegate.records import Rows
    from noisegate.sources.sources import open_source

    schema = classifier.release.schema
    source = open_source(
        path, schema if labelled else schema.unlabelled(), show_values=show_values
    )
    for records in source.batches():
        if labelled:
            place = schema.layout.label
            assert place is not None
            yield (
                Rows(records.numeric, np.delete(records.codes, place, axis=1)),
                records.codes[:, place],
            )
        else:
            yield records, np.full(len(records), -1)


def _class_named(classifier: LocallyLinear, text: str) -> Any:
    for level in classifier.classes:
        if str(level) == text or (
            isinstance(level, bool) and str(level).lower() == text.lower()
        ):
            return level
    raise OptionError(
        f"--label {text!r} is not a class; choose one of {', '.join(map(str, classifier.classes))}."
    )


def _class_filters(classifier: LocallyLinear, label: Any, top: int) -> dict[str, Any]:
    from noisegate_papers.models.locally_linear import answers

    weights, spread = answers(classifier, label)
    inputs = [
        {
            "input": classifier.inputs.names[j],
            "weight": float(weights[j]),
            "spread": float(spread[j]),
        }
        for j in (-abs(weights)).argsort(kind="stable")[:top]
    ]
    return {"label": label, "inputs": inputs}


def record_reasons(
    classifier: LocallyLinear, records: Rows, label: Any, top: int, show_values: bool
) -> list[dict[str, Any]]:
    """Returns, for each record, the probabilities and what speaks for and against a class."""
    import numpy as np

    from noisegate.schema import decode
    from noisegate_papers.models.locally_linear import reasons

    chances, predicted = (
        classifier.probabilities(records),
        classifier.predictions(records),
    )
    of = (
        predicted
        if label is None
        else np.full(len(records), classifier.classes.index(label))
    )
    why = reasons(classifier, records, of=of)
    cells = (
        decode(records, classifier.release.schema.unlabelled()).to_pylist()
        if show_values
        else None
    )
    found = []
    for row, adds in enumerate(why.adds):
        told = [
            {"column": why.columns[j], "adds": float(adds[j])}
            | ({"value": cells[row][why.columns[j]]} if cells else {})
            for j in np.argsort(-np.abs(adds), kind="stable")[:top]
            if adds[j]
        ]
        found.append(
            {
                "prediction": classifier.classes[predicted[row]],
                "probabilities": {
                    str(one): float(p)
                    for one, p in zip(classifier.classes, chances[row], strict=True)
                },
                "label": classifier.classes[of[row]],
                "for": [one for one in told if one["adds"] > 0],
                "against": [one for one in told if one["adds"] < 0],
            }
        )
    return found


def _show_filters(found: list[dict[str, Any]]) -> None:
    for one in found:
        rows = [
            [each["input"], f"{each['weight']:+.3g}", f"{each['spread']:.3g}"]
            for each in one["inputs"]
        ]
        headings = {"column": "left", "weight": "right", "spread": "right"}
        OUT.print(table(f"What {one['label']} depends on", headings, rows))
    OUT.print(
        "weight: how much the score of the class gains above the others while the "
        "column goes from its lower to its upper bound, or the level comes up, "
        "averaged over its linear maps; spread: how far these differ."
    )


def _show_reasons(found: list[dict[str, Any]]) -> None:
    for number, one in enumerate(found, start=1):
        likely = sorted(one["probabilities"].items(), key=lambda pair: -pair[1])[
            :MOST_CLASSES
        ]
        told = [*one["for"], *reversed(one["against"])]
        headings = {"column": "left", f"adds to {one['label']}": "right"}
        if any("value" in each for each in told):
            headings["value"] = "left"
        rows = [
            [
                each["column"],
                f"{each['adds']:+.3g}",
                *([str(each["value"])] if "value" in each else []),
            ]
            for each in told
        ]
        # A title would be as narrow as its table.
        chances = ", ".join(f"{name} {chance:.3f}" for name, chance in likely)
        OUT.print(f"Record {number}: {chances}", style="bold", markup=False)
        OUT.print(table("", headings, rows))
    OUT.print(
        "adds: to the score of the class above the mean of the others, by the linear map at this record; what is "
        "below zero speaks against it. The probabilities are not calibrated."
    )


def _draw(
    classifier: LocallyLinear,
    records: Rows | None,
    label: Any,
    shape: ImageShape,
    path: Path,
    show_values: bool,
) -> None:
    """Draws the maps of classes, or at each record the maps of its likeliest classes, or of one."""
    import numpy as np

    from noisegate_evaluate.reporting.pictures import MapRow, maps_picture

    if records is None:
        labels = classifier.classes if label is None else [label]
        rows = [
            MapRow(name=str(one), maps=classifier.filters(one)[:MOST_MAPS])
            for one in labels
        ]
        maps_picture(rows, path, shape=shape, title="What each class depends on")
        return
    rows = []
    for row, chance in enumerate(classifier.probabilities(records)):
        alone = records.rows(slice(row, row + 1))
        likely = np.argsort(-chance, kind="stable")[:MOST_CLASSES]
        of = likely if label is None else np.array([classifier.classes.index(label)])
        rows.append(
            MapRow(
                name=f"record {row + 1}",
                maps=np.concatenate(
                    [classifier.explain(alone, of=np.array([k])) for k in of]
                ),
                captions=[f"{classifier.classes[k]} {chance[k]:.2f}" for k in of],
                image=np.nan_to_num(alone.numeric[0]) if show_values else None,
            )
        )
    maps_picture(
        rows, path, shape=shape, title="Why: the map of a class at each record"
    )


def _shape(image: str | None, picture: Path | None) -> ImageShape | None:
    from noisegate_evaluate.images import read_image

    if (image is None) != (picture is None):
        why = "a picture of maps is drawn of columns that are pixels, for instance --image 28,28 --picture maps.png."
        raise OptionError(f"--picture and --image go together: {why}")
    return None if image is None else read_image(image)
