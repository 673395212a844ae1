"""Decoders as methods see them: what they say of themselves, how they are saved, and that they are checked."""

import json

import numpy as np
import pytest
import torch

from noisegate.errors import ModelError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks import decoder

SHAPE = ImageShape(height=8, width=4, channels=3)
DESIGN = decoder.DecoderDesign(
    shape=SHAPE, features=5, latent=3, channels=(6, 4), encoder="e" * 64, layer="last"
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "decoder.safetensors"
    path.write_bytes(
        decoder.decoder_bytes(decoder.build_decoder(DESIGN, seed=0).eval())
    )
    return path


def inputs(rows=4):
    random = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(rows, 5, generator=random))
    return features, torch.randn(rows, 3, generator=random)


def test_it_says_what_it_is_and_gives_rows_in_the_order_of_a_schema(file):
    found = decoder.load_decoder(file)
    assert (found.shape, found.features, found.latent) == (SHAPE, 5, 3)
    assert (found.kind, found.encoder, found.layer) == (decoder.OWN, "e" * 64, "last")
    rows = found(*inputs())
    images = found.network(*inputs())
    assert rows.shape == (4, SHAPE.size)
    # Row by row from the top left, with the channels of a pixel side by side.
    torch.testing.assert_close(rows[1].reshape(8, 4, 3)[7, 2, 1], images[1, 1, 7, 2])


def test_a_saved_model_has_the_decoder_in_it(file):
    found = decoder.load_decoder(str(file))
    tensors, described = found.tensors(), json.loads(json.dumps(found.to_json()))
    file.unlink()
    again = decoder.LoadedDecoder.from_saved(tensors, described)
    assert (again.digest, again.encoder, again.layer, again.shape) == (
        found.digest,
        found.encoder,
        "last",
        SHAPE,
    )
    assert torch.equal(again(*inputs()), found(*inputs()))
    changed = {name: np.array(value) for name, value in tensors.items()}
    changed["last.bias"][0] += 1
    with pytest.raises(ModelError, match="it was changed"):
        decoder.LoadedDecoder.from_saved(changed, described)
    with pytest.raises(ModelError, match="it was changed"):
        decoder.LoadedDecoder.from_saved(
            tensors,
            {**described, "made_of": {**described["made_of"], "encoder": "f" * 64}},
        )
    with pytest.raises(KeyError):
        decoder.LoadedDecoder.from_saved(tensors, {"kind": decoder.OWN})
    with pytest.raises(ModelError, match="of kind 'other' is not known"):
        decoder.LoadedDecoder.from_saved(
            {}, {"kind": "other", "digest": "", "made_of": {"kind": "other"}}
        )
