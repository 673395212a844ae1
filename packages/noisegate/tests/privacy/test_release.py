"""A release comes back from its folder as it was, or not at all."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.shared.columns import boolean
from tests.shared.stated import certificate

from noisegate.errors import ModelError
from noisegate.privacy.events import Gaussian, Sampler
from noisegate.privacy.release import (
    CERTIFICATE_FILE,
    VALUES_FILE,
    Release,
    array_hashes,
    release_arrays,
)
from noisegate.schema import Schema

SCHEMA = Schema((boolean("ill"),), label=None)


STDS = {"a": 1 / 3, "b": 2.0}


@pytest.fixture
def release():
    values = {
        "a": np.array([[1.0, -2.5], [1e-300, 3e300]]),
        "b": np.array([[0.1 + 0.2, 5.0, -0.0]]).T,
    }
    event = Gaussian(
        name="a",
        sensitivity=1,
        noise_std=16.0,
        coordinates=4,
        sampler=Sampler.DISCRETE_GAUSSIAN,
    )
    claim = {
        "public": {"schema": SCHEMA.to_json()},
        "hashes": array_hashes(release_arrays(values, STDS)),
    }
    return Release(
        values=values, noise_std=STDS, certificate=certificate(events=(event,), **claim)
    )


def test_a_release_comes_back_as_it_was(release, tmp_path):
    release.save(tmp_path)
    loaded = Release.load(tmp_path)
    assert loaded.certificate == release.certificate
    assert dict(loaded.noise_std) == dict(release.noise_std)
    assert {name: value.tobytes() for name, value in loaded.values.items()} == {
        name: value.tobytes() for name, value in release.values.items()
    }
    assert loaded.schema == SCHEMA


@pytest.mark.parametrize("change", ["value", "shape", "name", "more", "fewer", "hash"])
def test_what_the_certificate_does_not_speak_of_is_refused(change, release, tmp_path):
    release.save(tmp_path)
    path = tmp_path / VALUES_FILE
    arrays = dict(load_file(path))
    if change == "value":
        arrays["b"] = np.nextafter(arrays["b"], 1)
    elif change == "shape":
        arrays["a"] = arrays["a"].reshape(4, 1)
    elif change == "name":
        arrays["c"] = arrays.pop("b")
    elif change == "more":
        arrays["c"] = np.zeros((1, 1))
    elif change == "fewer":
        del arrays["b"]
    else:
        stored = json.loads((tmp_path / CERTIFICATE_FILE).read_text("utf-8"))
        stored["hashes"]["a"] = "0" * 64
        (tmp_path / CERTIFICATE_FILE).write_text(json.dumps(stored), encoding="utf-8")
    save_file(arrays, path)
    with pytest.raises(ModelError, match="hashes differ"):
        Release.load(tmp_path)


def test_a_broken_folder_is_refused(release, tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        Release.load(tmp_path)
    release.save(tmp_path)
    whole = (tmp_path / VALUES_FILE).read_bytes()
    for broken in (whole[:-3], b"", b"\xff" * 40):
        (tmp_path / VALUES_FILE).write_bytes(broken)
        with pytest.raises(ModelError, match="cannot be read"):
            Release.load(tmp_path)
    (tmp_path / VALUES_FILE).unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        Release.load(tmp_path)


def test_hashes_are_of_shape_and_values_however_they_are_held():
    numbers = np.array([[1.0, -2.5], [0.125, 3e5]])
    held = [numbers.astype(kind) for kind in ("<f8", ">f8", "<f4", ">f4")]
    assert (
        len(
            {
                array_hashes({"a": array})["a"]
                for array in [*held, np.asfortranarray(numbers)]
            }
        )
        == 1
    )
    plain = array_hashes({"a": np.array([[1.0, 2.0]])})
    assert plain != array_hashes({"a": np.array([[1.0], [2.0]])})
    assert plain != array_hashes({"a": np.array([[1.0, np.nextafter(2.0, 3)]])})
    assert plain != array_hashes({"b": np.array([[1.0, 2.0]])})
    assert array_hashes({"a": np.array([[0.0]])}) != array_hashes(
        {"a": np.array([[-0.0]])}
    )
    assert len(plain["a"]) == 64
