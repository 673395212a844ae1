import numpy as np
import pytest
import torch

from noisegate.schema import ImageShape, pixel_schema
from noisegate_images.models.image import NeuralImage, build_image_generator
from noisegate_images.models.image_network import ImageNetwork


def model(kind="convolutional", weights=(0.25, 0.0, 0.75)):
    network = ImageNetwork(
        shape=ImageShape(height=8, width=4),
        kind=kind,
        latent=3,
        hidden=(16,),
        channels=(4, 2),
    )
    generator = build_image_generator(network, 3, seed=0)
    with torch.no_grad():  # a new network makes nearly the same grey for every noise
        last = [layer for layer in generator.modules() if hasattr(layer, "weight")][-1]
        last.weight.mul_(20)
    random = torch.Generator().manual_seed(3)
    for _ in range(5):  # so that running statistics are not those of a new network
        generator(2 * generator.noise(30, random), torch.arange(30) % 3)
    return NeuralImage(
        generator=generator.requires_grad_(False).eval(), weights=np.asarray(weights)
    )


def draw(rows, seed=0, **settings):
    return model(**settings).draw(rows, torch.Generator().manual_seed(seed))


def test_labels_come_in_their_shares():
    codes = draw(4000).codes[:, 0]
    assert abs((codes == 2).mean() - 0.75) < 5 * (0.75 * 0.25 / 4000) ** 0.5
    assert not (codes == 1).any()


def test_an_image_is_of_its_label():
    """The images of a label in a mixture are those of that label alone, also behind the first block of images."""
    mixed = draw(1200)
    means = {
        label: draw(1200, weights=np.eye(3)[label]).numeric.mean(axis=0)
        for label in (0, 2)
    }
    apart = np.abs(means[0] - means[2]).max()
    for label, other in ((0, 2), (2, 0)):
        found = mixed.numeric[600:][mixed.codes[600:, 0] == label].mean(axis=0)
        assert np.abs(found - means[label]).max() < 0.5 * apart
        assert np.abs(found - means[other]).max() > 0.5 * apart


def test_a_model_of_another_schema_is_refused():
    kept = model()
    with pytest.raises(ValueError, match="do not fit the schema"):
        NeuralImage.from_saved(
            pixel_schema(8, 8, labels=("a", "b", "c")), kept.tensors(), kept.to_json()
        )
