"""A classifier on disk, and the records that it is asked about: the user's own, in the columns of its schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.classifiers.locally_linear import LocallyLinear
    from noisegate.schema import EncodedTable, Schema


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
