"""What `tests/shapes.py` does to the package: annotations that give shapes are checked in every call."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from noisegate.privacy.events import Sampler
from noisegate.privacy.noise import add_noise


def test_an_array_of_another_kind_or_shape_is_refused():
    sums = np.zeros((2, 3), dtype=np.int64)
    assert add_noise(sums, noise_std=20.0, sampler=Sampler.ROUNDED_GAUSSIAN).shape == (2, 3)
    with pytest.raises(TypeCheckError, match="sums"):
        add_noise(sums.astype(np.float64), noise_std=20.0, sampler=Sampler.ROUNDED_GAUSSIAN)
