"""Any model in a folder, whether it draws records or linked tables, or predicts labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from noisegate.models.folder import LINKED, holds_classifier, kind_in
from noisegate.models.record_model import model_class

if TYPE_CHECKING:
    from noisegate.models.record_model import FittedModel


def load(folder: str | Path) -> FittedModel:
    """Returns the model in a folder, after checking every hash: of a table, of linked tables, or a classifier.

    Args:
        folder: What `save`, ``fit(out=...)`` or `noisegate fit --out` wrote.

    Raises:
        ModelError: if the folder is missing, broken or was changed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, load, synthesize
        >>> from noisegate.schema import Boolean
        >>> made = synthesize(pa.table({"ill": [True, False] * 100}), schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> load(made.save("model")).sample(2).column_names
        ['ill']
    """
    from noisegate.models.synthesizer import Synthesizer, model_path

    found = model_path(folder)
    kind = kind_in(found)
    if kind == LINKED or holds_classifier(found):
        loaded: FittedModel = model_class(kind).load(found)
        return loaded
    return Synthesizer.load(found)
