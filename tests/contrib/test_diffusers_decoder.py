"""Stable unCLIP pipelines as decoders, on a tiny one with random weights: repeatable, and named by their digest."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch

from noisegate.errors import MissingExtraError, ModelError, OptionError
from noisegate.features.perceptual import Perceptual
from noisegate.models.activations import chosen_activations
from noisegate.models.decoder import LoadedDecoder, load_decoder
from noisegate.networks.named import load_network
from noisegate.networks.weights import folder_digest
from noisegate.schema import EncodedTable
from noisegate.schema.pixels import ImageShape

pytestmark = pytest.mark.slow  # importing diffusers and transformers takes ten seconds

SHAPE = ImageShape(height=6, width=6, channels=3)


def written(folder):
    """A pipeline of a few thousand weights in `folder`."""
    diffusers, transformers = pytest.importorskip("diffusers"), pytest.importorskip("transformers")
    from diffusers.pipelines.stable_diffusion.stable_unclip_image_normalizer import StableUnCLIPImageNormalizer

    words = folder / "words"
    words.mkdir(parents=True)
    vocabulary = {word: code for code, word in enumerate(("<|startoftext|>", "<|endoftext|>", "a", "b"))}
    (words / "vocab.json").write_text(json.dumps(vocabulary))
    (words / "merges.txt").write_text("#version: 0.2\n")
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
    torch.manual_seed(0)
    normaliser = StableUnCLIPImageNormalizer(embedding_dim=12)
    normaliser.mean.data.fill_(2.0)
    pipeline = diffusers.StableUnCLIPImg2ImgPipeline(
        feature_extractor=transformers.CLIPImageProcessor(crop_size=16, size=16),
        image_encoder=transformers.CLIPVisionModelWithProjection(
            transformers.CLIPVisionConfig(projection_dim=12, image_size=16, patch_size=8, **layers)
        ),
        image_normalizer=normaliser,
        image_noising_scheduler=diffusers.DDPMScheduler(),
        tokenizer=transformers.CLIPTokenizer(str(words / "vocab.json"), str(words / "merges.txt"), model_max_length=8),
        text_encoder=transformers.CLIPTextModel(
            transformers.CLIPTextConfig(
                bos_token_id=0, eos_token_id=1, pad_token_id=1, vocab_size=4, max_position_embeddings=8, **layers
            )
        ),
        unet=diffusers.UNet2DConditionModel(
            sample_size=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            block_out_channels=(8, 16),
            norm_num_groups=4,
            attention_head_dim=4,
            cross_attention_dim=16,
            class_embed_type="projection",
            projection_class_embeddings_input_dim=24,
            layers_per_block=1,
        ),
        scheduler=diffusers.DDIMScheduler(),
        vae=diffusers.AutoencoderKL(
            block_out_channels=(4, 4),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            norm_num_groups=2,
            latent_channels=4,
            sample_size=8,
        ),
    )
    pipeline.save_pretrained(folder / "pipe")
    described = {"kind": "diffusers", "path": "pipe", "image": [6, 6, 3], "steps": 2, "guidance": 3}
    (folder / "unclip.json").write_text(json.dumps(described))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unclip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TQDM_DISABLE", "1")
        written(folder)
    return folder


def inputs(rows=2):
    random = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(rows, 12, generator=random))
    return features, torch.randn(rows, 64, generator=random)


def test_it_decodes_each_row_by_itself_and_is_named_in_saved_models(folder):
    digest = folder_digest(folder / "pipe")
    found = load_decoder(folder / "unclip.json", digest)
    assert (found.shape, found.features, found.latent) == (SHAPE, 12, 64)
    assert (found.digest, found.encoder, found.tensors()) == (digest, folder_digest(folder / "pipe/image_encoder"), {})
    features, noise = inputs()
    rows = found(features, noise)
    assert rows.shape == (2, SHAPE.size)
    assert 0 <= float(rows.min()) < float(rows.max()) <= 1
    # The pipeline draws once more for each image: that follows from the image's own noise.
    torch.testing.assert_close(found(features.flip(0), noise.flip(0)).flip(0), rows, rtol=1e-4, atol=1e-5)
    for changed in (found(features, noise.flip(0)), found(-features, noise)):
        assert float((changed - rows).abs().max()) > 1e-4
    # Embeddings have the length that the pipeline's own statistics give them: twelve of mean 2 and deviation 1.
    assert found.decoder._length == pytest.approx((12 * (4 + 1)) ** 0.5)
    again = LoadedDecoder.from_saved({}, json.loads(json.dumps(found.to_json())))
    torch.testing.assert_close(again(features, noise), rows)


def test_its_encoder_is_a_network_by_name(folder):
    name, digest = f"clip:{folder / 'pipe'}", folder_digest(folder / "pipe/image_encoder")
    network = load_network(name, None, digest)
    assert network.sha256 == digest == load_decoder(folder / "unclip.json", folder_digest(folder / "pipe")).encoder
    encoding = Perceptual(activations=chosen_activations(network, (), SHAPE, pool=True))
    records = EncodedTable(np.random.default_rng(0).random((3, SHAPE.size)), np.zeros((3, 0), dtype=np.int32))
    features = encoding(records)
    assert features.shape == (3, 12)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-5)
    pixels = torch.from_numpy(records.numeric.astype(np.float32)).reshape(3, 6, 6, 3).permute(0, 3, 1, 2)
    square = torch.nn.functional.interpolate(pixels, (16, 16), mode="bicubic", antialias=True)
    mean, std = (torch.tensor(values)[:, None, None] for values in (network.mean, network.std))
    expected = network.module.network.model(pixel_values=(square - mean) / std).image_embeds
    np.testing.assert_allclose(features, torch.nn.functional.normalize(expected).numpy(), rtol=1e-3, atol=1e-4)
    with pytest.raises(OptionError, match=f"that of the image encoder in this folder is {digest}; give it"):
        load_network(name)
    with pytest.raises(ModelError, match="is"):
        load_network(name, None, "00")


def test_another_folder_is_refused(folder, tmp_path):
    with pytest.raises(OptionError, match=f"that of this folder is {folder_digest(folder / 'pipe')}; give it"):
        load_decoder(folder / "unclip.json")
    with pytest.raises(ModelError, match="that of this folder is"):
        load_decoder(folder / "unclip.json", "00")
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy/pipe/unet/diffusion_pytorch_model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no Stable unCLIP pipeline"):
        load_decoder(tmp_path / "copy/unclip.json", folder_digest(tmp_path / "copy/pipe"))
    for wrong, reason in (
        ({"image": [6, 6, 1]}, r"'image' is \[height, width, 3\]; found image=\[6, 6, 1\]"),
        ({"other": 1}, r"and \['other'\]"),
        ({"steps": 0}, "steps=0 of a diffusers decoder"),
        ({"guidance": 0.5}, "guidance=0.5 of a diffusers decoder"),
    ):
        described = {"kind": "diffusers", "path": "pipe", "image": [6, 6, 3], **wrong}
        (tmp_path / "copy/unclip.json").write_text(json.dumps(described))
        with pytest.raises(OptionError, match=reason):
            load_decoder(tmp_path / "copy/unclip.json", "00")


def test_without_the_extra_it_is_named(folder, monkeypatch):
    digest = folder_digest(folder / "pipe")
    for package, load in (
        ("diffusers", lambda: load_decoder(folder / "unclip.json", digest)),
        ("transformers", lambda: load_network(f"clip:{folder / 'pipe'} ", None, digest)),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtraError, match=r"pip install 'noisegate\[diffusers\]'"):
            load()
