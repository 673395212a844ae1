"""What DP-DRE hands out: public records as they are, or what a decoder makes of their features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.generators.record_model import RecordModel
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.methods.dre.design import Design


def model_of(design: Design, weights: npt.NDArray[np.float64], schema: Schema) -> RecordModel:
    """Returns the model of records.

    Args:
        design: References and decoder.
        weights: (labels, references), or (1, references) where references have labels of their own or there are none.
        schema: Of the records.
    """
    label = schema.layout.label
    if design.decoder is None:
        from noisegate.generators.weighted_reference import WeightedReference

        return WeightedReference(records=design.reference.records, weights=weights, label=label)
    from noisegate.generators.decoded_reference import DecodedReference, WeightedFeatures

    if design.labels is not None and label is not None:
        codes = np.arange(schema.layout.coded[label].size)
        weights = np.where(codes[:, None] == design.labels[None], weights, 0.0)
    source = WeightedFeatures(vectors=design.plain, weights=weights)
    return DecodedReference(source=source, decoder=design.decoder, weights=source.shares, labelled=label is not None)
