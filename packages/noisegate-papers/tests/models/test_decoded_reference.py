"""Features of public images that are drawn by weight and decoded."""

import numpy as np
import pytest
import torch

from noisegate.schema import ImageShape, pixel_schema
from noisegate_images.models.decoder import load_decoder
from noisegate_images.networks.decoder import DecoderDesign, build_decoder, decoder_bytes
from noisegate_papers.models.decoded import DecodedReference, WeightedFeatures

SHAPE = ImageShape(height=4, width=4, channels=1)
DESIGN = DecoderDesign(shape=SHAPE, features=3, latent=2, channels=(4,), encoder="e" * 64, layer="last")
SCHEMA = pixel_schema(4, 4, labels=("a", "b"))
VECTORS = np.eye(3, dtype=np.float32)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Showing:
    """A decoder that shows the feature in the first pixels."""

    shape, features, latent, digest = SHAPE, 3, 2, "d" * 64

    def __call__(self, features, noise):
        return torch.cat([features, torch.zeros(len(features), 13)], dim=1)


def model(weights, decoder=None):
    source = WeightedFeatures(vectors=VECTORS, weights=np.array(weights, dtype=float))
    return DecodedReference(
        source=source, decoder=decoder or Showing(), weights=source.shares, labelled=len(weights) > 1
    )


def test_features_come_with_each_label_as_often_as_their_weights_say():
    found = model([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]).draw(400, seeded())
    labels, features = found.codes[:, 0], found.numeric[:, :3].argmax(axis=1)
    # Draws of a share of 1/2: off by 0.15 less than once in 1e8 runs.
    assert labels.mean() == pytest.approx(0.5, abs=0.15)
    assert set(features[labels == 1]) == {1}
    assert set(features[labels == 0]) == {0, 2}
    assert np.mean(features[labels == 0] == 0) == pytest.approx(0.5, abs=0.02)


def test_a_label_without_weights_is_never_drawn():
    assert not model([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]).draw(50, seeded()).codes.any()
    plain = model([[0.0, 3.0, 1.0]]).draw(40, seeded())
    assert plain.codes.shape == (40, 0)
    assert np.bincount(plain.numeric[:, :3].argmax(axis=1)).tolist() == [0, 30, 10]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "decoder.safetensors"
    path.write_bytes(decoder_bytes(build_decoder(DESIGN, seed=0)))
    made = model([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]], load_decoder(path))
    return made, made.tensors(), made.to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source/weights": np.ones((2, 2))}, "with weights of shape"),
        ({"source/weights": np.zeros((2, 3))}, "one weight"),
        ({"source/weights": -np.ones((2, 3))}, "below 0"),
        ({"source/vectors": np.full((3, 3), np.nan)}, "finite"),
        ({"source/vectors": np.ones((3, 4))}, "do not fit a decoder"),
        ({"source/weights": np.ones((3, 3))}, "do not fit a decoder"),
    ],
)
def test_a_broken_model_is_refused(change, message, saved):
    _, tensors, description = saved
    with pytest.raises(ValueError, match=message):
        DecodedReference.from_saved(SCHEMA, tensors | change, description)
