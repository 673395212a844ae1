from dataclasses import replace

import numpy as np

from noisegate import DPMERF, Budget
from noisegate.schema import pixel_schema

SCHEMA = pixel_schema(4, 8, labels=(0, 1))
OPTIONS = {"steps": 6, "check_every": 6, "batch": 16}
TINY = DPMERF(generator="convolutional", image=(4, 8, 1), frequencies=20, latent=2, hidden=(8,), fit_options=OPTIONS)


def test_what_is_asked_does_not_depend_on_the_generator():
    table = DPMERF(frequencies=20, kernel="numeric", length_scale=TINY.length_scale)
    budget = Budget(epsilon=1.0)
    assert TINY.plan(SCHEMA, budget) == table.plan(SCHEMA, budget)
    assert np.array_equal(TINY.maps(SCHEMA)["fourier"].frequencies, table.maps(SCHEMA)["fourier"].frequencies)


def test_defaults_are_those_of_the_generator_and_give_way():
    table, images = DPMERF(), DPMERF(generator="convolutional", image=(28, 28, 1))
    assert (table.kernel, table.length_scale, table.hidden) == ("pairs", (0.005, 0.5), (256, 256))
    assert images.kernel == "numeric"
    assert images.length_scale[0] >= 1  # a length over many pixels, in ranges of one
    assert not images.fit_settings().stop_at_noise
    assert table.fit_settings().stop_at_noise
    chosen = replace(images, length_scale=3.0, fit_options={"steps": 7})
    assert chosen.length_scale == (3.0, 3.0)
    assert (chosen.fit_settings().steps, chosen.fit_settings().stop_at_noise) == (7, False)
