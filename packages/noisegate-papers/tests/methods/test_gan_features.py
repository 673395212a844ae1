"""GANs in feature space: what is asked, that private features are learnt, where DP-GAN-FT starts, and saved models."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tests.shared.feature_space import SCHEMA, features_of, stripes, write_decoder

from noisegate import Budget, Gate
from noisegate.errors import ModelError, OptionError
from noisegate_papers.methods.dp_gan_features import DPGANFineTuned, DPGANInversion
from noisegate_papers.models.inputs import encode_features

SMALL = {
    "image": (8, 8, 1),
    "latent": 4,
    "hidden": (16,),
    "discriminator_hidden": (16,),
    "sampling_probability": 0.1,
}
QUICK = {**SMALL, "steps": 4, "discriminator_steps": 2, "batch": 16}
LEARNS = {
    **SMALL,
    "steps": 60,
    "discriminator_steps": 1,
    "discriminator_learning_rate": 1e-2,
    "generator_learning_rate": 1e-2,
    "batch": 64,
}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return write_decoder(tmp_path_factory.mktemp("decoder") / "d.safetensors")


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """Public images with stripes down alone."""
    path = tmp_path_factory.mktemp("public") / "public.parquet"
    pq.write_table(stripes(80, seed=9, down=1.0), path)
    return str(path)


def gate(data=None, schema=SCHEMA, **options):
    rows = stripes(200, labelled=schema.label is not None) if data is None else data
    return Gate(rows, schema=schema, **{"epsilon": 1000.0, "records": 200, **options})


def mean_feature(method, down):
    return features_of(stripes(100, seed=5, down=down), method)[0].mean(axis=0)


def made(generator, label, rows=200):
    """The mean feature that a network makes for a label."""
    with torch.no_grad():
        noise = generator.noise(rows, torch.Generator().manual_seed(0))
        return generator(noise, torch.full((rows,), label)).numpy().mean(axis=0)


def test_the_loss_is_of_the_feature_beside_its_label_as_generated_ones_are_shown():
    method = DPGANInversion(**QUICK)
    discriminator, feature = method.gan(SCHEMA).discriminator, torch.rand(144)
    parameters = dict(discriminator.named_parameters())
    found = method.loss(SCHEMA)(parameters, feature, torch.tensor([1]))
    shown = torch.cat([12 * feature, torch.tensor([0.0, 1.0])])[None]
    assert torch.allclose(found, torch.nn.functional.softplus(-discriminator(shown)[0]))
    made = encode_features(
        lambda noise, labels: noise, torch.eye(144), torch.zeros(144), None
    )
    assert made.norm(dim=1).numpy() == pytest.approx(np.full(144, 12))


@pytest.mark.slow
def test_private_features_are_learnt_for_each_label(decoder):
    """At ε = 1000 what is made for a label comes nearer to that label's mean than to the other's."""
    method = DPGANInversion(**LEARNS, decoder=decoder)
    model = method.fit(gate()).model
    for label in range(2):
        own, other = (mean_feature(method, float(down)) for down in (label, 1 - label))
        found = made(model.source, label)
        assert np.linalg.norm(found - own) < 0.8 * np.linalg.norm(found - other)
    assert model.weights == pytest.approx([0.5, 0.5], abs=0.3)


def test_fine_tuning_starts_from_public_features(decoder, public):
    rates = {
        "discriminator_learning_rate": 1e-9,
        "generator_learning_rate": 1e-9,
    }  # not those of the first steps, which are public
    method = DPGANFineTuned(
        **LEARNS | rates,
        decoder=decoder,
        public=public,
        pretraining_steps=60,
        pretraining_learning_rate=1e-2,
    )
    plan = method.plan(SCHEMA, Budget(epsilon=1.0))
    generator = method.gan(SCHEMA).generator
    start, weights = (
        made(generator, 0),
        {name: value.clone() for name, value in generator.state_dict().items()},
    )
    trained = dict(method.training(SCHEMA, plan, 20.0, "cpu").result())
    fresh = DPGANInversion(**LEARNS).training(SCHEMA, plan, 20.0, "cpu").result()
    assert all(torch.equal(fresh[name], value) for name, value in weights.items())
    generator.load_state_dict(
        {name: value for name, value in trained.items() if name in weights}
    )
    goal = mean_feature(method, 1.0)
    assert np.linalg.norm(made(generator, 0) - goal) < 0.6 * np.linalg.norm(
        start - goal
    )


@pytest.mark.parametrize("labelled", [False, True])
def test_public_features_have_their_labels_or_random_ones(decoder, public, labelled):
    method = DPGANFineTuned(
        **QUICK, decoder=decoder, public=public, public_labels=labelled
    )
    rows = method.public_rows(SCHEMA)
    assert rows.shape == (80, 144 + 2)
    assert rows[:, :144].norm(dim=1).numpy() == pytest.approx(np.full(80, 12), abs=1e-3)
    assert rows[:, 144:].sum(dim=1).tolist() == [1] * 80
    assert (rows[:, 145].mean() == 1) == labelled


def test_public_images_are_needed_for_fine_tuning(decoder):
    method = DPGANFineTuned(**QUICK, decoder=decoder)
    for ask in (lambda: method.check_fit("cpu"), lambda: method.query(gate())):
        with pytest.raises(
            OptionError,
            match="public=None: dp-gan-ft starts from a GAN of public features",
        ):
            ask()


def test_a_release_of_another_generator_is_refused(decoder):
    method = DPGANInversion(**QUICK, decoder=decoder)
    with pytest.raises(ModelError, match="the release has no generator of"):
        replace(method, hidden=(8,)).fit_release(method.query(gate()))
