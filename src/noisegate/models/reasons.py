"""Why a locally linear classifier says what it says: what each column adds to a score, and what each class answers to.

Only differences between the scores of classes matter to a prediction, so both are given above the mean of the other
classes. At a record, with the weights of the maps as they are there, what the columns add is the score to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.models.locally_linear import LocallyLinear
from noisegate.schema import EncodedTable

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Reasons:
    """What the score of one class is made of, at some records.

    Attributes:
        columns: Names of the columns, numeric ones first.
        adds: What each column adds to the score of the class, less what it adds to those of the others on average,
            (records, columns).
        rest: The same of what no column says, (records,).
    """

    columns: tuple[str, ...]
    adds: Values
    rest: Values


def reasons(classifier: LocallyLinear, records: EncodedTable, *, of: npt.NDArray[np.int64]) -> Reasons:
    """Returns what the scores of some records are made of.

    `adds` and `rest` of a record sum to the score of the class less the mean score of the others.

    Args:
        classifier: The classifier.
        records: Encoded by the schema without its label.
        of: Position of a class for each record.
    """
    import torch

    inputs, layout = classifier.inputs, classifier.release.schema.layout
    names = [column.name for column in layout.numeric]
    names += [column.name for j, column in enumerate(layout.coded) if j != layout.label]
    belongs = np.eye(len(names))[_columns(classifier)]
    seen = inputs(torch.from_numpy(records.numeric), torch.from_numpy(records.codes)).numpy()
    classes, rows = len(classifier.classes), len(records)
    adds, rest = np.zeros((classes, rows, len(names))), np.zeros((classes, rows))
    for k in range(classes):
        weights = classifier.importance(records, of=np.full(rows, k)).astype(np.float64)
        adds[k] = (weights @ classifier.weights[:, k] * seen) @ belongs
        rest[k] = weights @ classifier.bias[:, k]
    return Reasons(columns=tuple(names), adds=_above(adds, of), rest=_above(rest, of))


def answers(classifier: LocallyLinear, label: str | int | bool) -> tuple[Values, Values]:
    """Returns what a class answers to anywhere.

    Args:
        classifier: The classifier.
        label: The class.

    Returns:
        For each input, in the units of `LocallyLinear.filters`: the mean weight over the maps of the class, less that
        of the other classes; and the standard deviation over the maps of the class.

    Raises:
        OptionError: if there is no such class.
    """
    maps = np.stack([classifier.filters(one) for one in classifier.classes]).astype(np.float64)
    own = classifier.filters(label)
    means = maps.mean(axis=1)[:, None]
    return _above(means, np.array([classifier.classes.index(label)]))[0], own.std(axis=0).astype(np.float64)


def _columns(classifier: LocallyLinear) -> npt.NDArray[np.int64]:
    """Returns, for each input, the position of its column."""
    inputs = classifier.inputs
    coded = np.repeat(np.arange(len(inputs.coded)), inputs.coded) + inputs.numeric
    return np.concatenate([np.arange(inputs.numeric), np.asarray(inputs.absent, np.int64), coded]).astype(np.int64)


def _above(values: Values, of: npt.NDArray[np.int64]) -> Values:
    """Returns, of (classes, rows, …), each row of its class less the mean of that row over the other classes."""
    own = values[of, np.arange(len(of))]
    return np.asarray(own - (values.sum(axis=0) - own) / (len(values) - 1))
