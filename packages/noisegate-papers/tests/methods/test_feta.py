"""DP-FETA: means of classes are bought beside the steps, and the denoiser learns from nothing else before these."""

import numpy as np
import pytest
import torch
from tests.shared.feature_space import moves
from tests.shared.stated import kinds, ledger_of

from noisegate import DPFETA, Budget, Gate
from noisegate.errors import OptionError
from noisegate.privacy import noise
from noisegate.records import Rows
from noisegate.schema import ImageShape
from noisegate_papers.queries.thumbnails import Thumbnails
from noisegate_papers.training.denoising import DiffusionTraining, enlarged

from .test_dpdm import SCHEMA, SMALL, gate_of, stripes


def method(**settings):
    return DPFETA.for_schema(SCHEMA, {**SMALL, "means_steps": 2, **settings})


@pytest.fixture
def warmed(monkeypatch):
    """Returns the images that denoisers were warmed up with."""
    seen = []

    def kept(self, images, *arguments, **options):
        seen.append(images.numpy())

    monkeypatch.setattr(DiffusionTraining, "warm_up", kept)
    return seen


def test_means_are_the_released_sums_over_the_records_that_the_public_expects(
    warmed, monkeypatch
):
    monkeypatch.setattr(
        noise, "add_noise", lambda sums, **_: 12 * 2**20 * (sums.size == 8) + 0 * sums
    )
    made = method(label_shares=(0.8, 0.2), steps=1)
    for rows in (
        60,
        20,
    ):  # neighbours and more of the same public number: the same means
        made.query(Gate(stripes(rows), schema=SCHEMA, epsilon=5.0, records=100))
    assert np.array_equal(warmed[0], warmed[1])
    value = (
        12
        * 2**20
        / made.plan(SCHEMA, Budget(epsilon=5.0)).release("means").query.grid.scale
    )
    expected = np.clip([[value / 80], [value / 20]], 0, 1)
    np.testing.assert_allclose(warmed[0], np.broadcast_to(expected, (2, 16)), rtol=1e-6)


@pytest.mark.slow
def test_with_little_noise_they_are_the_means_of_the_classes(warmed):
    data = stripes(1000)
    shares = (data.label == "across").mean()
    made = method(
        means_share=1.0, means_bound=1.0, steps=1, label_shares=(shares, 1 - shares)
    )
    made.query(Gate(data, schema=SCHEMA, epsilon=900.0, records=1000))
    small = made.thumbnails()
    images = data.drop(columns="label").to_numpy() / 255
    records = Rows(images, np.zeros((len(images), 1), np.int32))
    for row, label in enumerate(("across", "down")):
        mean = small(records)[(data.label == label).to_numpy()].mean(axis=0)
        exact = enlarged(torch.from_numpy(mean[None]), small.small, small.side).numpy()[
            0
        ]
        np.testing.assert_allclose(warmed[0][row], exact, atol=0.02)


def test_a_record_moves_the_sum_of_its_class_by_the_bound_and_no_more():
    query = method().gradient_plan(SCHEMA, Budget(epsilon=1.0)).queries[0]
    assert query.norm == pytest.approx(0.5 * 2)  # half the length of four white pixels
    for moved, other in moves(query, 16):
        assert moved <= query.grid.bound.units and other == 0


def test_a_loss_that_the_gate_refuses_costs_nothing(tmp_path, monkeypatch):
    ledger = ledger_of(tmp_path, epsilon=100.0, delta=1e-3)
    monkeypatch.setattr(
        DPFETA,
        "loss",
        lambda self, schema: lambda parameters, numeric, codes: torch.rand(()),
    )
    with pytest.raises((OptionError, RuntimeError)):
        method().query(gate_of(ledger=ledger, dataset="clinic"))
    assert kinds(ledger) == []


@pytest.mark.slow
def test_what_is_learned_from_means_stays_when_steps_are_few():
    settings = {
        "means_steps": 80,
        "steps": 1,
        "learning_rate": 1e-6,
        "channels": (8,),
        "patch": 1,
        "means_batch": 32,
    }
    made = method(**settings, means_bound=1.0, means_share=1.0, sampling_steps=8)
    made = made.fit(gate_of(900.0, rows=100), device="cpu")
    batch = next(iter(made.images(100, seed=0)))
    # The mean of all images is grey; an untrained denoiser makes images that are as black and white as noise.
    assert batch.pixels.mean() / 255 == pytest.approx(0.3, abs=0.1)
    assert batch.pixels.std() / 255 < 0.25


def test_small_images_are_means_of_squares():
    shape = ImageShape(height=4, width=2, channels=3)
    images = np.random.default_rng(0).random((5, 24)).astype(np.float32)
    small = Thumbnails(image=shape, side=2)(
        Rows(images.astype(np.float64), np.zeros((5, 0), np.int32))
    )
    expected = images.reshape(5, 2, 2, 1, 2, 3).mean(axis=(2, 4)).reshape(5, -1)
    np.testing.assert_allclose(small, expected, rtol=1e-6)
