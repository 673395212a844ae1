"""What a classifier on disk is asked about the user's own records, as plain values, and the maps that are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.errors import OptionError
from noisegate.models.locally_linear import LocallyLinear, answers, reasons
from noisegate.schema import EncodedTable, Schema, decode

if TYPE_CHECKING:
    from noisegate.schema.pixels import ImageShape

MOST_RECORDS, MOST_MAPS, MOST_CLASSES = 20, 12, 5


def unlabelled(schema: Schema) -> Schema:
    """Returns the schema of records to be predicted: without the label, which they may have but need not."""
    columns = tuple(column for column in schema.columns if column.name != schema.label)
    ignored = (*schema.ignore, *([] if schema.label is None else [schema.label]))
    images = None if schema.images is None else schema.images.unlabelled()
    return replace(schema, columns=columns, label=None, ignore=ignored, constraints=(), images=images)


def read_records(path: Path, classifier: LocallyLinear, *, show_values: bool) -> Iterator[EncodedTable]:
    """Yields the records in a file, encoded by the schema of the classifier without its label.

    Raises:
        DataError: if they do not fit; values are quoted with `show_values` only.
    """
    from noisegate.data.sources import open_source

    yield from open_source(path, unlabelled(classifier.release.schema), show_values=show_values).batches()


def class_named(classifier: LocallyLinear, text: str) -> Any:
    """Returns the class that is written `text` on the command line.

    Raises:
        OptionError: if there is none.
    """
    for level in classifier.classes:
        if str(level) == text or (isinstance(level, bool) and str(level).lower() == text.lower()):
            return level
    raise OptionError(f"--label {text!r} is no class; choose one of {', '.join(map(str, classifier.classes))}.")


def asked_records(path: Path, classifier: LocallyLinear, show_values: bool) -> EncodedTable:
    """Returns the records in a file.

    Raises:
        DataError: if they do not fit the schema.
        OptionError: if there are too many to read explanations of.
    """
    batches = list(read_records(path, classifier, show_values=show_values))
    records = EncodedTable.concatenate(batches)
    if len(records) > MOST_RECORDS:
        raise OptionError(
            f"--record {path} has more than {MOST_RECORDS} records; give fewer, or take `noisegate predict`."
        )
    return records


def class_filters(classifier: LocallyLinear, label: Any, top: int) -> dict[str, Any]:
    """Returns what a class answers to most."""
    weights, spread = answers(classifier, label)
    first = np.argsort(-np.abs(weights), kind="stable")[:top]
    inputs = [
        {"input": classifier.inputs.names[j], "weight": float(weights[j]), "spread": float(spread[j])} for j in first
    ]
    return {"label": label, "inputs": inputs}


def record_reasons(
    classifier: LocallyLinear, records: EncodedTable, label: Any, top: int, show_values: bool
) -> list[dict[str, Any]]:
    """Returns, for each record, the probabilities and what speaks for and against a class."""
    chances, predicted = classifier.probabilities(records), classifier.predictions(records)
    of = predicted if label is None else np.full(len(records), classifier.classes.index(label))
    why = reasons(classifier, records, of=of)
    cells = decode(records, unlabelled(classifier.release.schema)).to_pylist() if show_values else None
    found = []
    for row, adds in enumerate(why.adds):
        first = [j for j in np.argsort(-np.abs(adds), kind="stable")[:top] if adds[j]]
        told = [
            {"column": why.columns[j], "adds": float(adds[j])}
            | ({"value": cells[row][why.columns[j]]} if cells else {})
            for j in first
        ]
        found.append(
            {
                "prediction": classifier.classes[predicted[row]],
                "probabilities": {str(one): float(p) for one, p in zip(classifier.classes, chances[row], strict=True)},
                "label": classifier.classes[of[row]],
                "for": [one for one in told if one["adds"] > 0],
                "against": [one for one in told if one["adds"] < 0],
            }
        )
    return found


def draw_maps(
    classifier: LocallyLinear,
    records: EncodedTable | None,
    label: Any,
    shape: ImageShape,
    path: Path,
    show_values: bool,
) -> None:
    """Draws the maps of classes, or at each record the maps of its likeliest classes, or of one."""
    from noisegate.report.filters import MapRow, maps_picture

    if records is None:
        labels = classifier.classes if label is None else [label]
        rows = [MapRow(name=str(one), maps=classifier.filters(one)[:MOST_MAPS]) for one in labels]
        maps_picture(rows, path, shape=shape, title="What each class answers to")
        return
    rows, chances = [], classifier.probabilities(records)
    for row, chance in enumerate(chances):
        alone = records.rows(slice(row, row + 1))
        likely = np.argsort(-chance, kind="stable")[:MOST_CLASSES]
        of = likely if label is None else np.array([classifier.classes.index(label)])
        rows.append(
            MapRow(
                name=f"record {row + 1}",
                maps=np.concatenate([classifier.explain(alone, of=np.array([k])) for k in of]),
                captions=[f"{classifier.classes[k]} {chance[k]:.2f}" for k in of],
                image=np.nan_to_num(alone.numeric[0]) if show_values else None,
            )
        )
    maps_picture(rows, path, shape=shape, title="Why: the map of a class at each record")
