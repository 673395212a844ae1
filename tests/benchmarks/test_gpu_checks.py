"""What is checked on a GPU, on the CPU: sums of integers, and every method at tiny size."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from gpu import integers, paths

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand


def test_integers_are_right_here_and_a_device_that_mixes_images_is_found_out(monkeypatch):
    found = integers.checks("cpu")
    assert found["right"] and found["apart"] == 0.0
    right, order = integers.block_gradients, list(range(integers.IMAGES))
    here = integers.integers("cpu", integers.linear(), order)
    monkeypatch.setattr(integers, "choose_execution", lambda *given: None)

    def mixed(*given):
        return tuple(part + np.float32(2.0**-9) * part[:1] for part in right(*given))

    monkeypatch.setattr(integers, "block_gradients", mixed)
    assert not np.array_equal(integers.integers("cpu", integers.linear(), order), here)
    network, turned = integers.network(), order[::-1]
    assert not np.array_equal(integers.integers("cpu", network, order), integers.integers("cpu", network, turned))


def test_a_method_is_tried_and_one_that_fails_is_said(monkeypatch, tmp_path):
    assert paths.tried("dp-merf", "cpu")["state"] == "fitted"
    assert paths.tried("no-such-method", "cpu")["state"] == "failed"
