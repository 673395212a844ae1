"""Decoded features: a saved model is the same model, and one that does not hang together is refused."""

import numpy as np
import pytest
import torch

from noisegate.devices import seeded
from noisegate.errors import ModelError
from noisegate.schema import ImageShape, pixel_schema
from noisegate_images.networks.decoder import (
    DecoderDesign,
    LoadedDecoder,
    build_decoder,
    decoder_bytes,
    load_decoder,
)
from noisegate_papers.models import decoded
from noisegate_papers.queries.transforms import random_axes

SCHEMA, UNLABELLED = pixel_schema(8, 8, labels=("no", "yes")), pixel_schema(8, 8)
DESIGN = {"features": 6, "classes": 2, "latent": 3, "hidden": (5,), "nonnegative": True}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    shape = ImageShape(height=8, width=8)
    design = DecoderDesign(
        shape=shape,
        features=6,
        latent=2,
        channels=(4, 2),
        encoder="0" * 64,
        layer="last",
    )
    path = tmp_path_factory.mktemp("decoder") / "decoder.safetensors"
    path.write_bytes(decoder_bytes(build_decoder(design, seed=0)))
    found = load_decoder(path)
    assert isinstance(found, LoadedDecoder)
    return found


def network(**changes):
    with seeded(0):
        return decoded.FeatureGenerator(**DESIGN | changes)


def gaussian(decoder, labels=2, features=6, weights=(0.25, 0.75)):
    source = decoded.FeatureGaussians(
        means=np.eye(features)[:labels], roots=np.full((labels, features), 0.1)
    )
    return decoded.DecodedGaussian(
        source=source, decoder=decoder, weights=np.array(weights)
    )


def drawn(model, rows=300):
    return model.draw(rows, torch.Generator().manual_seed(0))


def test_the_label_of_an_image_is_that_of_its_feature(decoder):
    """The same noise under either label: with equal Gaussians images would not tell labels apart."""
    records = drawn(gaussian(decoder))
    means = [
        records.numeric[records.codes[:, 0] == label].mean(axis=0) for label in range(2)
    ]
    alike = drawn(gaussian(decoder, labels=1))
    same = [
        alike.numeric[alike.codes[:, 0] == label].mean(axis=0) for label in range(2)
    ]
    assert np.abs(means[0] - means[1]).mean() > 2 * np.abs(same[0] - same[1]).mean()


def test_what_does_not_hang_together_is_refused(decoder):
    model = gaussian(decoder)
    tensors, described = model.tensors(), model.to_json()
    longer = {
        f"source/{name}": value
        for name, value in gaussian(decoder, features=7).source.tensors().items()
    }
    first = next(name for name in tensors if name.startswith("decoder/"))
    for schema, changed, says in (
        (pixel_schema(8, 16, labels=("no", "yes")), {}, "do not fit the schema"),
        (SCHEMA, {"weights": np.ones(3) / 3}, "do not fit the schema"),
        (SCHEMA, {"weights": np.array([-1.0, 2.0])}, "are not shares"),
        (SCHEMA, longer, "2 distributions of 7 features do not fit a decoder of 6"),
        (SCHEMA, {first: tensors[first] + 1}, "it was changed"),
    ):
        with pytest.raises((ValueError, ModelError), match=says):
            decoded.DecodedGaussian.from_saved(schema, tensors | changed, described)


def test_a_network_makes_features_of_length_1_without_negative_entries():
    made = network()(torch.randn(50, 3), torch.zeros(50, dtype=torch.long))
    assert (
        made.norm(dim=1).detach().numpy() == pytest.approx(np.ones(50), abs=1e-6)
        and made.min() > 0
    )
    signed = network(nonnegative=False)
    assert signed(torch.randn(50, 3), torch.zeros(50, dtype=torch.long)).min() < 0


# Gaussian features: the moments that are asked for, length 1, each label its own, and saved ones.

FAR = decoded.FeatureGaussians(
    means=np.array([[3.0, 0.0], [0.0, 4.0]]), roots=np.array([[0.3, 0.1], [0.2, 0.4]])
)


def features_of(source, labels, seed=0):
    return source.draw(
        torch.as_tensor(labels), torch.Generator().manual_seed(seed)
    ).numpy()


def test_features_have_length_1_and_each_label_its_own():
    found = features_of(FAR, [0, 1] * 500)
    assert found.dtype == np.float32 and np.linalg.norm(found, axis=1) == pytest.approx(
        np.ones(1000), abs=1e-6
    )
    # Far from 0, the angle of a draw is its sideways part over the mean's length.
    assert found[0::2, 1].std() == pytest.approx(0.1 / 3, rel=0.15)
    assert found[1::2, 0].std() == pytest.approx(0.2 / 4, rel=0.15)


def test_a_full_root_gives_the_covariance():
    axes, spread = random_axes(4, 2, seed=0), np.array([[0.3, 0.1], [0.1, 0.2]])
    source = decoded.FeatureGaussians(
        means=np.array([[20.0, 0.0]]), roots=spread[None], axes=axes
    )
    found = features_of(source, [0] * 20_000) @ axes
    covariance = np.cov(found[:, 1] / found[:, 0] * 20)
    assert (
        covariance == pytest.approx((spread @ spread.T)[1, 1], rel=0.1)
        and source.features == 4
    )


def test_what_is_below_0_is_0_where_features_have_no_sign():
    source = decoded.FeatureGaussians(
        means=np.zeros((1, 8)), roots=np.ones((1, 8)), nonnegative=True
    )
    found = features_of(source, [0] * 200)
    assert found.min() == 0 and 0.4 < (found == 0).mean() < 0.6


# Features of public images that are drawn by weight and decoded.

SMALL_SHAPE = ImageShape(height=4, width=4, channels=1)
SMALL = DecoderDesign(
    shape=SMALL_SHAPE,
    features=3,
    latent=2,
    channels=(4,),
    encoder="e" * 64,
    layer="last",
)
LETTERS = pixel_schema(4, 4, labels=("a", "b"))
VECTORS = np.eye(3, dtype=np.float32)


def random_of(seed=0):
    return torch.Generator().manual_seed(seed)


class Showing:
    """A decoder that shows the feature in the first pixels."""

    shape, features, latent, digest = SMALL_SHAPE, 3, 2, "d" * 64

    def __call__(self, features, noise):
        return torch.cat([features, torch.zeros(len(features), 13)], dim=1)


def model(weights, decoder=None):
    source = decoded.WeightedFeatures(
        vectors=VECTORS, weights=np.array(weights, dtype=float)
    )
    return decoded.DecodedReference(
        source=source,
        decoder=decoder or Showing(),
        weights=source.shares,
        labelled=len(weights) > 1,
    )


def test_features_come_with_each_label_as_often_as_their_weights_say():
    found = model([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]).draw(400, random_of())
    labels, features = found.codes[:, 0], found.numeric[:, :3].argmax(axis=1)
    # Draws of a share of 1/2: off by 0.15 less than once in 1e8 runs.
    assert labels.mean() == pytest.approx(0.5, abs=0.15) and set(
        features[labels == 1]
    ) == {1}
    assert set(features[labels == 0]) == {0, 2}
    assert np.mean(features[labels == 0] == 0) == pytest.approx(0.5, abs=0.02)


def test_a_label_without_weights_is_never_drawn():
    assert (
        not model([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]).draw(50, random_of()).codes.any()
    )
    plain = model([[0.0, 3.0, 1.0]]).draw(40, random_of())
    assert plain.codes.shape == (40, 0)
    assert np.bincount(plain.numeric[:, :3].argmax(axis=1)).tolist() == [0, 30, 10]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "decoder.safetensors"
    path.write_bytes(decoder_bytes(build_decoder(SMALL, seed=0)))
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
        decoded.DecodedReference.from_saved(LETTERS, tensors | change, description)
