"""SVHN's cropped digits on disk: MATLAB's arrays and nothing else, with 10 for the digit 0."""

import numpy as np
import pytest
from image_files import pixels
from scipy.io import savemat

from noisegate.data.images.images import ImageSource
from noisegate.errors import DataError
from noisegate.schema import EncodedTable, pixel_schema

IMAGES, DIGITS = pixels(5, 32, 32, 3), [0, 9, 1, 0, 4]
SCHEMA = pixel_schema(32, 32, 3, labels=range(10))
X, Y = IMAGES.transpose(1, 2, 3, 0), np.array([[10], [9], [1], [10], [4]], np.uint8)


def encode(path, schema=SCHEMA, **options):
    return EncodedTable.concatenate(list(ImageSource(path, schema, **options).batches()))


@pytest.mark.parametrize("rows", [2, 256])
@pytest.mark.parametrize("packed", [True, False])
def test_a_folder_stands_for_the_training_set(packed, rows, tmp_path):
    savemat(tmp_path / "train_32x32.mat", {"X": X, "y": Y}, do_compression=packed)
    savemat(tmp_path / "test_32x32.mat", {"X": X[..., :1], "y": Y[:1]}, do_compression=packed)
    for place in (tmp_path, tmp_path / "train_32x32.mat"):
        found = encode(place, batch_rows=rows)
        assert np.array_equal(np.rint(found.numeric * 255).reshape(IMAGES.shape), IMAGES)
        assert found.codes[:, 0].tolist() == DIGITS
    assert encode(tmp_path / "test_32x32.mat").codes.tolist() == [[0]]
    assert encode(tmp_path, pixel_schema(32, 32, 3)).codes.shape == (5, 0)


BAD = {
    "no labels": {"X": X},
    "no images": {"y": Y},
    "too few labels": {"X": X, "y": Y[:2]},
    "another type": {"X": X.astype(np.float64), "y": Y},
    "another size": {"X": X[:30], "y": Y},
    "labels that are no whole numbers": {"X": X, "y": Y + 0.5},
    "cells": {"X": np.array([["SECRET", 1]], object), "y": Y},
}


@pytest.mark.parametrize("bad", BAD)
def test_other_arrays_are_refused_by_name(bad, tmp_path):
    savemat(tmp_path / "train_32x32.mat", BAD[bad])
    with pytest.raises(DataError, match=r"train_32x32\.mat: cannot be read as SVHN") as caught:
        encode(tmp_path)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None


def test_what_is_cut_off_or_not_matlab_s_is_refused_by_name(tmp_path):
    path = tmp_path / "train_32x32.mat"
    savemat(path, {"X": X, "y": Y}, do_compression=True)
    whole = path.read_bytes()
    for content in (whole[:-40], whole[:200], b"", b"MATLAB 7.3 MAT-file" + bytes(600), b"SECRET" * 100):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"train_32x32\.mat: cannot be read as SVHN"):
            encode(tmp_path)
