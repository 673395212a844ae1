from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.shared.columns import categorical, integer
from tests.shared.feature_space import PIXELS, drawings

from noisegate import DPCGAN, DPGAN, Budget, Gate
from noisegate.gate.per_example.gradients import clipped_gradients
from noisegate.methods.registry import method_of
from noisegate.privacy.gradient_plan import steps_of
from noisegate.schema import Schema
from noisegate_images.training.adam import Adam
from noisegate_papers.methods.private_gan import LABELS
from noisegate_papers.training.adversarial import stream

COLUMNS = (
    integer("u", 0, 10),
    integer("v", 0, 10, missing=True),
    categorical("c", "rg"),
    categorical("y", "ab"),
)
SCHEMA = Schema(COLUMNS, label="y")
BUDGET = Budget(epsilon=100.0)
SMALL = {
    "hidden": (16,),
    "latent": 4,
    "batch": 64,
    "sampling_probability": 0.05,
    "discriminator_hidden": (16,),
}
FAST = dict(
    **SMALL,
    steps=150,
    discriminator_steps=3,
    discriminator_learning_rate=5e-3,
    generator_learning_rate=1e-2,
)
TINY = DPCGAN(**SMALL, steps=6, discriminator_steps=2)
DRAWINGS = {
    "image": (8, 8, 1),
    "hidden": (16,),
    "latent": 4,
    "batch": 64,
    "channels": (8, 4),
}
FAST_DRAWINGS = {
    **DRAWINGS,
    "discriminator_channels": (8, 16),
    "sampling_probability": 0.05,
    "steps": 100,
    "discriminator_steps": 2,
}


def table(rows=600, share=0.75, seed=0):
    """Two clusters: "a" has large u, small v and "r"; "b" the other way round; v is missing in one of ten."""
    random = np.random.default_rng(seed)
    a = random.random(rows) < share
    near, far = random.integers(0, 3, rows), random.integers(8, 11, rows)
    v = pa.array(np.where(a, near, far), mask=random.random(rows) < 0.1)
    columns = {
        "u": np.where(a, far, near),
        "v": v,
        "c": np.where(a, "r", "g"),
        "y": np.where(a, "a", "b"),
    }
    return pa.table(columns)


def gate(data=None, schema=SCHEMA, **options):
    return Gate(
        table() if data is None else data,
        schema=schema,
        **{"epsilon": 100.0, "records": 600, **options},
    )


def exchanged(data, label):
    one, other = (
        SCHEMA.columns[-1].levels if label == "y" else PIXELS.columns[-1].levels
    )
    labels = [other if value == one else one for value in data[label].to_pylist()]
    return data.set_column(data.schema.get_field_index(label), label, pa.array(labels))


def apart(sample):
    """Returns the mean of u and the share of "r" among "a", less those among "b"."""
    rows = sample.to_pandas()
    u, red = rows.u.groupby(rows.y).mean(), (rows.c == "r").groupby(rows.y).mean()
    return u["a"] - u["b"], red["a"] - red["b"]


@pytest.mark.slow
@pytest.mark.parametrize("method", [DPGAN, DPCGAN])
def test_two_clusters_are_found_with_the_labels_that_they_have(method):
    """Two-sided: with the labels exchanged, what is made for each is exchanged too."""
    sign = 1 if method is DPGAN else -1
    found = (
        method(**FAST)
        .fit(gate(exchanged(table(), "y") if sign < 0 else table()))
        .sample(1000, seed=0)
    )
    u, red = apart(found)
    assert sign * u > 3 and sign * red > 0.5
    share = np.mean(np.array(found["y"].to_pylist()) == "a")
    # DP-GAN learns that three in four are "a"; DP-CGAN was told nothing, and takes equal shares.
    assert abs(share - 0.5) < 0.08 if method is DPCGAN else share > 0.55


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_not_made():
    found = DPGAN(**FAST).fit(gate(table(share=0.0))).sample(1000, seed=0).to_pandas()
    assert found.u.mean() < 4 and (found.c == "r").mean() < 0.3
    assert (found.y == "a").mean() < 0.4


def halves(sample, label):
    rows = sample.to_pandas()
    images = (
        rows[rows.label == label].drop(columns="label").to_numpy().reshape(-1, 8, 8)
    )
    return images[:, :, :4].mean() - images[:, :, 4:].mean()


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_images_are_found_with_the_labels_that_they_have(sign):
    method = DPCGAN(
        **FAST_DRAWINGS, discriminator_learning_rate=4e-3, generator_learning_rate=3e-3
    )
    data = drawings() if sign > 0 else exchanged(drawings(), "label")
    found = method.fit(gate(data, PIXELS)).sample(200, seed=0)
    assert sign * halves(found, "left") > 60 and sign * halves(found, "right") < -60


def test_gradients_at_records_are_those_of_the_discriminator_alone():
    asked = steps_of(TINY.plan(SCHEMA, BUDGET)).query
    gan = TINY.gan(SCHEMA)
    discriminator = gan.discriminator
    assert asked.parameters == {
        name: tuple(value.shape) for name, value in discriminator.named_parameters()
    }
    assert asked.released == {
        name: tuple(value.shape) for name, value in gan.generator.state_dict().items()
    }
    record = torch.tensor([0.2, float("nan")]), torch.tensor([1, 0])
    row = torch.tensor([[2 * 0.2 - 1, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]])
    expected = torch.nn.functional.softplus(-discriminator(row))[0]
    assert torch.isclose(
        TINY.loss(SCHEMA)(dict(discriminator.named_parameters()), *record), expected
    )


def at_start(method, batch=60.0):
    return method.training(SCHEMA, method.plan(SCHEMA, BUDGET), batch, "cpu")


@pytest.mark.parametrize("clip_norm", [0.01, 100.0])
def test_gradients_at_generated_records_are_clipped_one_by_one(clip_norm):
    training = at_start(TINY)
    rows, _ = training.generated(torch.Generator().manual_seed(0))
    discriminator = training.discriminator
    weights = dict(discriminator.named_parameters())
    expected = {name: torch.zeros_like(value) for name, value in weights.items()}
    for row in rows.detach():
        loss = torch.nn.functional.softplus(discriminator(row[None]))[0]
        gradients = torch.autograd.grad(loss, list(weights.values()))
        length = (
            torch.stack([gradient.square().sum() for gradient in gradients])
            .sum()
            .sqrt()
        )
        assert 0.01 < length < 100
        for name, gradient in zip(weights, gradients, strict=True):
            expected[name] += gradient * min(1.0, clip_norm / float(length)) / len(rows)
    found = clipped_gradients(discriminator, rows.detach(), clip_norm=clip_norm)
    assert all(
        torch.allclose(found[name], expected[name], rtol=1e-4, atol=1e-7)
        for name in expected
    )


def test_a_step_follows_the_noisy_mean_and_the_gradient_at_generated_records():
    """As Adam with the rate and the beta of the discriminator."""
    training, method = at_start(TINY), TINY
    before = {name: value.clone() for name, value in training.parameters().items()}
    adam = Adam(before, learning_rate=method.discriminator_learning_rate, beta1=0.5)
    fake = training.fake_gradients()
    adam.step({name: 0.1 + value for name, value in fake.items()})
    training.step({name: torch.full_like(value, 6.0) for name, value in fake.items()})
    assert all(
        torch.allclose(training.parameters()[name], before[name], atol=1e-6)
        for name in before
    )


def test_a_label_that_fools_the_discriminator_gets_a_larger_share():
    training = at_start(
        DPGAN(**SMALL, steps=6, discriminator_steps=2, generator_learning_rate=0.1)
    )
    with torch.no_grad():
        for value in training.parameters().values():
            value.zero_()
        training.parameters()["scores.bias"].copy_(torch.tensor([0.0, -3.0, 3.0]))
    for step in range(5):
        training.generator_step(stream(1, step))
    shares = training.result()[LABELS].softmax(dim=0)
    assert shares[1] > 0.65


def test_label_shares_are_kept_to():
    method = replace(TINY, label_shares=(0.1, 0.9))
    found = method.fit(gate()).sample(2000, seed=0)
    assert abs(np.mean(np.array(found["y"].to_pylist()) == "b") - 0.9) < 0.04
    assert method_of(method.query(gate()).certificate) == method
    # The discriminator is shown them in training too.
    training = at_start(method)
    shown = torch.cat(
        [
            training.generated(torch.Generator().manual_seed(seed))[0].detach()
            for seed in range(20)
        ]
    )
    assert abs(float(shown[:, -1].mean()) - 0.9) < 0.05
