"""Labels of images to codes: what the data calls a class, found among the labels that the schema declares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.data.encode import in_words
from noisegate.data.image_origins import NOT_SHOWN
from noisegate.data.parse import is_text
from noisegate.errors import DataError
from noisegate.schema import ImageForm
from noisegate.schema.checks import TEXT_PADDING


class LabelProblem(Exception):  # noqa: N818 - not an error for users; the caller adds the place, and makes it one
    """A label that is not declared.

    Attributes:
        row: position in the batch.
        value: what was found; private. None where the label is missing.
    """

    def __init__(self, row: int, value: Any) -> None:
        super().__init__()
        self.row, self.value = row, value


def check_labels(kind: pa.DataType, names: tuple[str, ...] | None, form: ImageForm, name: str) -> None:
    """Require that labels of an Arrow type can be found among the declared ones.

    Whole numbers are the declared ones by value; where text is declared, they are positions among the ``names`` that
    the data gives its classes. Text is compared as text.

    Args:
        kind: type of the labels in the data called ``name``.
        names: what whole numbers stand for, by position, where the data says so.
        form: says the declared labels.
        name: what messages call the data.

    Raises:
        DataError: if not.
    """
    kind = kind.value_type if pt.is_dictionary(kind) else kind
    place, declared = f"{name}, label {form.label!r}", form.labels
    if is_text(kind) or pt.is_null(kind):
        return
    if not pt.is_integer(kind):
        raise DataError(f"{place}: expected whole numbers or text, found a column of {in_words(kind)}; convert it")
    if isinstance(declared[0], int):
        return
    if names is None:
        raise DataError(
            f"{place}: holds whole numbers, and the schema declares text; declare the numbers as labels instead, or "
            "write the labels of the data as text"
        )
    if not set(names) <= set(declared):
        raise DataError(
            f"{place}: the data gives names to its classes that are not all declared; declare the same names as labels "
            "in the schema, or whole numbers"
        )


def label_codes(labels: pa.Array, names: tuple[str, ...] | None, form: ImageForm) -> npt.NDArray[np.int32]:
    """Return the position of each label among the declared ones, (images,).

    Args:
        labels: of a type that `check_labels` let pass.
        names: as there.
        form: says the declared labels.

    Raises:
        LabelProblem: for the first label that is not declared.
    """
    found = labels.dictionary_decode() if pt.is_dictionary(labels.type) else labels
    if pt.is_integer(found.type) and isinstance(form.labels[0], str):
        places = pc.index_in(found.cast(pa.int64()), value_set=pa.array(range(len(names or ())), pa.int64()))
        texts = pa.array(names or (), pa.string()).take(places)
    elif is_text(found.type):
        texts = pc.utf8_trim(found.cast(pa.string()), characters=TEXT_PADDING)
    else:
        texts = found.cast(pa.string())
    codes = pc.index_in(texts, value_set=pa.array([str(label) for label in form.labels], pa.string()))
    if codes.null_count:
        row = int(np.argmax(codes.is_null().to_numpy(zero_copy_only=False)))
        raise LabelProblem(row, labels[row].as_py())
    positions: npt.NDArray[np.int32] = codes.to_numpy(zero_copy_only=False).astype(np.int32)
    return positions


def label_error(problem: LabelProblem, place: str, form: ImageForm, *, show_values: bool) -> DataError:
    """Return the error for one label; ``place`` is such as ``train.parquet, record 7``."""
    where = f"{place}, label {form.label!r}"
    if problem.value is None:
        return DataError(f"{where}: it is missing; fill it in, or describe images without labels")
    found = repr(problem.value) if show_values else f"another value ({NOT_SHOWN})"
    return DataError(
        f"{where}: expected one of the {len(form.labels)} labels in the schema, found {found}; declare it as a label; "
        "labels must be public knowledge"
    )
