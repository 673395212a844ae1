"""The count of a record is 1, whatever the record."""

import numpy as np
import pytest

from noisegate.features.feature_map import Counts
from noisegate.schema import EncodedTable


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_every_record_counts_once(rows):
    records = EncodedTable(numeric=np.full((rows, 2), np.nan), codes=np.zeros((rows, 1), np.int32))
    found = Counts()(records)
    assert (found.shape, found.dtype) == ((rows, 1), np.float32)
    assert (found == 1).all()
    assert (Counts().dim, Counts().norm, Counts().nonnegative) == (1, 1.0, True)
