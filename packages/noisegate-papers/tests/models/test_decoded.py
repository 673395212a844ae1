"""Decoded features: a saved model is the same model, and one that does not hang together is refused."""

import numpy as np
import pytest
import torch

from noisegate.devices import seeded
from noisegate.errors import ModelError
from noisegate.schema import pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate_images.models.decoder import LoadedDecoder, load_decoder
from noisegate_images.networks.decoder import DecoderDesign, build_decoder, decoder_bytes
from noisegate_papers.models.decoded import DecodedGaussian, FeatureGaussians, FeatureGenerator

SCHEMA, UNLABELLED = pixel_schema(8, 8, labels=("no", "yes")), pixel_schema(8, 8)
DESIGN = {"features": 6, "classes": 2, "latent": 3, "hidden": (5,), "nonnegative": True}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    shape = ImageShape(height=8, width=8)
    design = DecoderDesign(shape=shape, features=6, latent=2, channels=(4, 2), encoder="0" * 64, layer="last")
    path = tmp_path_factory.mktemp("decoder") / "decoder.safetensors"
    path.write_bytes(decoder_bytes(build_decoder(design, seed=0)))
    found = load_decoder(path)
    assert isinstance(found, LoadedDecoder)
    return found


def network(**changes):
    with seeded(0):
        return FeatureGenerator(**DESIGN | changes)


def gaussian(decoder, labels=2, features=6, weights=(0.25, 0.75)):
    source = FeatureGaussians(means=np.eye(features)[:labels], roots=np.full((labels, features), 0.1))
    return DecodedGaussian(source=source, decoder=decoder, weights=np.array(weights))


def drawn(model, rows=300):
    return model.draw(rows, torch.Generator().manual_seed(0))


def test_the_label_of_an_image_is_that_of_its_feature(decoder):
    """The same noise under either label: with equal Gaussians images would not tell labels apart."""
    records = drawn(gaussian(decoder))
    means = [records.numeric[records.codes[:, 0] == label].mean(axis=0) for label in range(2)]
    alike = drawn(gaussian(decoder, labels=1))
    same = [alike.numeric[alike.codes[:, 0] == label].mean(axis=0) for label in range(2)]
    assert np.abs(means[0] - means[1]).mean() > 2 * np.abs(same[0] - same[1]).mean()


def test_what_does_not_hang_together_is_refused(decoder):
    model = gaussian(decoder)
    tensors, described = model.tensors(), model.to_json()
    with pytest.raises(ValueError, match="do not fit the schema"):
        DecodedGaussian.from_saved(pixel_schema(8, 16, labels=("no", "yes")), tensors, described)
    with pytest.raises(ValueError, match="do not fit the schema"):
        DecodedGaussian.from_saved(SCHEMA, tensors | {"weights": np.ones(3) / 3}, described)
    with pytest.raises(ValueError, match="are no shares"):
        DecodedGaussian.from_saved(SCHEMA, tensors | {"weights": np.array([-1.0, 2.0])}, described)
    longer = {f"source/{name}": value for name, value in gaussian(decoder, features=7).source.tensors().items()}
    with pytest.raises(ValueError, match="2 distributions of 7 features do not fit a decoder of 6"):
        DecodedGaussian.from_saved(SCHEMA, tensors | longer, described)
    first = next(name for name in tensors if name.startswith("decoder/"))
    with pytest.raises(ModelError, match="it was changed"):
        DecodedGaussian.from_saved(SCHEMA, tensors | {first: tensors[first] + 1}, described)


def test_a_network_makes_features_of_length_1_without_negative_entries():
    made = network()(torch.randn(50, 3), torch.zeros(50, dtype=torch.long))
    assert made.norm(dim=1).detach().numpy() == pytest.approx(np.ones(50), abs=1e-6)
    assert made.min() > 0
    signed = network(nonnegative=False)
    assert signed(torch.randn(50, 3), torch.zeros(50, dtype=torch.long)).min() < 0
