"""DPDM: a record's loss is its mean over draws that follow from it, and what is trained is drawn from."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from noisegate import DPDM, Budget, Gate
from noisegate.errors import ModelError
from noisegate.gate.per_example.gradients import (
    compute_block_gradients,
    gradient_source,
)
from noisegate.privacy.grid import UNITS
from noisegate.schema import ImageShape, pixel_schema
from noisegate_papers.models.diffusion import DiffusionImages, build_denoiser
from noisegate_papers.training.denoising import STEP

SCHEMA = pixel_schema(4, 4, labels=("across", "down"))
SMALL = {"channels": (4,), "steps": 3, "sampling_probability": 0.5, "sampling_steps": 3}


def method(schema=SCHEMA, **settings):
    return DPDM.for_schema(schema, SMALL | settings)


def stripes(rows=60, schema=SCHEMA, seed=0):
    """Returns images with a white stripe across or down, as a table."""
    random = np.random.default_rng(seed)
    images, labels, places = (
        random.integers(0, *size) for size in ((40, (rows, 4, 4)), (2, rows), (4, rows))
    )
    for image, label, place in zip(images, labels, places, strict=True):
        image[(slice(None), place) if label else place] = 255
    data = pd.DataFrame(
        images.reshape(rows, -1),
        columns=[name for name in schema.names if name != schema.label],
    )
    if schema.label:
        data[schema.label] = np.array(["across", "down"])[labels]
    return data


def gate_of(epsilon=5.0, schema=SCHEMA, rows=60, **options):
    return Gate(
        stripes(rows, schema), schema=schema, epsilon=epsilon, records=rows, **options
    )


def source_of(made, rows):
    """Returns what computes gradients of a method in blocks of so many records, its parameters, and their number."""
    plan = made.gradient_plan(SCHEMA, Budget(epsilon=1.0))
    random = torch.Generator().manual_seed(1)
    weights = dict(made.denoiser(SCHEMA).named_parameters())
    parameters = {
        name: value.detach() + 0.1 * torch.randn(value.shape, generator=random)
        for name, value in weights.items()
    }
    return gradient_source(made.loss(SCHEMA), plan, rows), parameters, plan.count


def added(made, numeric, codes, step=0.0):
    """Returns the integers that records add to a step."""
    source, parameters, count = source_of(made, len(numeric))
    sums = np.zeros(count, dtype=np.int64)
    source.add_clipped(
        sums,
        compute_block_gradients(
            source, {**parameters, STEP: torch.tensor([step])}, numeric, codes, "cpu"
        ),
    )
    return sums


def images(rows, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (rows, 16)) / 255, random.integers(0, 2, (rows, 1))


def test_labels_come_in_the_shares_that_are_public():
    model = method(label_shares=(0.9, 0.1)).fit(gate_of(), device="cpu")
    labels = model.sample(400, seed=0)["label"].to_pylist()
    assert 0.8 < labels.count("across") / 400 < 0.97


@pytest.mark.parametrize("draws", [1, 5])
def test_a_record_adds_at_most_the_norm_whatever_it_is_and_however_many_draws_it_has(
    draws,
):
    numeric, codes = images(6)
    numeric[:2] = [[0.0], [1.0]]
    made = method(noise_draws=draws, clip_norm=1e-3)
    alone = [
        added(made, numeric[[row]], codes[[row]]).astype(np.float64) for row in range(6)
    ]
    # Gradients are far longer than the norm, so the bound is reached.
    lengths = np.linalg.norm(alone, axis=1)
    assert lengths.max() <= UNITS and lengths.min() > 0.99 * UNITS


def test_what_a_record_adds_is_a_function_of_it_and_of_the_number_of_the_step():
    # That its place changes nothing is asked of the gate, which chooses the kernels: tests/contracts/test_method.py.
    numeric, codes = images(4)
    made = method()
    together = added(made, numeric, codes)
    assert np.array_equal(added(made, numeric, codes), together)
    assert not np.array_equal(added(made, numeric, codes, step=1.0), together)


def test_draws_differ_between_records_steps_and_draws_and_cover_all_levels():
    draws = method(noise_draws=8).draws()
    image = torch.linspace(0, 1, 16)
    noise, sigma = draws(torch.tensor([3.0]), image)
    assert noise.shape == (8, 16) and sigma.shape == (8, 1)
    for other in (
        draws(torch.tensor([4.0]), image),
        draws(torch.tensor([3.0]), image.flip(0)),
    ):
        assert not torch.equal(other[0], noise) and not torch.equal(other[1], sigma)
    assert len(noise.unique(dim=0)) == 8
    # One level in each eighth of the distribution.
    assert (sigma[1:] > sigma[:-1]).all()
    many = torch.cat(
        [draws(torch.tensor([float(step)]), image)[1] for step in range(300)]
    ).log()
    assert float(many.mean()) == pytest.approx(-1.2, abs=0.05) and float(
        many.std()
    ) == pytest.approx(1.2, abs=0.05)
    normal = torch.cat(
        [draws(torch.tensor([float(step)]), image)[0] for step in range(50)]
    )
    assert abs(float(normal.mean())) < 0.06 and float(normal.std()) == pytest.approx(
        1, abs=0.05
    )


@pytest.mark.slow
def test_with_little_noise_stripes_run_as_their_label_says():
    settings = {
        "steps": 100,
        "sampling_probability": 0.25,
        "channels": (8,),
        "learning_rate": 1e-2,
        "patch": 1,
    }
    made = method(**settings, sampling_steps=8, ema_decay=0.9).fit(
        gate_of(900.0, rows=200), device="cpu"
    )
    batch = next(iter(made.images(100, seed=0)))
    pixels, down = (
        batch.pixels.reshape(-1, 4, 4) / 255.0,
        np.array(batch.labels) == "down",
    )
    # The brightest row of an image with a stripe across is far brighter than its brightest column.
    across = pixels.mean(axis=2).max(axis=1) - pixels.mean(axis=1).max(axis=1)
    assert across[~down].mean() - across[down].mean() > 0.3


def test_a_label_says_what_is_where_far_from_the_borders():
    denoiser = build_denoiser(
        ImageShape(height=64, width=64), 2, channels=(4, 4), patch=1, seed=0
    )
    torch.nn.init.normal_(denoiser.exit.weight)
    rows = torch.cat([torch.zeros(2, 64 * 64 + 1), torch.eye(2)], dim=1)
    apart = denoiser(rows).diff(dim=0).reshape(64, 64)[28:36, 28:36]
    # Convolutions alone give one number to all places that see no border.
    assert apart.std() > 0.1 * apart.abs().max()


def test_a_model_of_before_labels_had_patterns_draws_without_them():
    denoiser = build_denoiser(
        ImageShape(height=4, width=4), 2, channels=(4, 4), patch=1, seed=0
    )
    model = DiffusionImages(
        denoiser=denoiser,
        weights=np.array([0.5, 0.5]),
        channels=(4, 4),
        sampling_steps=2,
    )
    old = {
        name: value for name, value in model.to_json().items() if name != "patterned"
    }
    found = [
        DiffusionImages.from_saved(SCHEMA, model.tensors(), told)
        for told in (model.to_json(), old)
    ]
    assert [len(one.denoiser.patterns) for one in found] == [2, 0]


def test_a_release_of_another_size_is_refused():
    release = method().query(gate_of())
    with pytest.raises(ModelError, match="no denoiser of this size"):
        replace(method(), channels=(8,)).model(release)
