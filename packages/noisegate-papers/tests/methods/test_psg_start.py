"""PSG's warm start: moments of small images are bought beside the steps, and the set begins as draws from them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from noisegate import Budget, PrivateSetGeneration, Synthesizer
from noisegate.errors import OptionError
from noisegate.gate.sums import SumTask, sum_records
from noisegate.models.folder import verify_model
from noisegate.privacy.grid import UNITS
from noisegate.records import Rows

from .test_psg import IMAGES, PIXELS, TABLE, gate, pixel_table, stripes

WARM = replace(IMAGES, start="gaussians", start_share=0.5, start_bound=1.0)


def begun(method, images, labels):
    """Returns the set, (classes, each, pixels), and its average, as they begin where the moments have no noise."""
    (query,) = method.start_queries(PIXELS)
    rows = [Rows(images[labels == label] / 255, np.zeros(((labels == label).sum(), 1), np.int32)) for label in (0, 1)]
    sums = np.stack([query.feature_map(one).astype(np.float64).sum(axis=0) for one in rows], axis=1)
    plan = SimpleNamespace(releases=[SimpleNamespace(query=query, noise_std_natural=1e-6)])
    session = SimpleNamespace(plan=plan, prepare=lambda parameters: None, ask=lambda maps: {"start": sums})
    training = method.training(PIXELS, None, 1.0, "cpu")
    method.before_steps(None, session, training)
    moved = training._set.inputs().detach().numpy()
    return moved.reshape(2, -1, 64) / 2, training.result()["set"].numpy().reshape(2, -1, 64) / 2


def test_one_plan_has_the_moments_and_the_steps_and_a_model_is_verified(tmp_path):
    model = replace(WARM, steps=1).fit(gate(pixel_table(), PIXELS), device="cpu")
    events = {event.name: event for event in model.release.certificate.events}
    # 64 pixels and the number before them, for each of two classes.
    assert set(events) == {"start", "set"} and events["start"].coordinates == 2 * 65 * 66 // 2
    model.save(tmp_path / "model")
    assert 19.5 < verify_model(tmp_path / "model").recomputed_epsilon <= 20.0
    assert Synthesizer.load(tmp_path / "model").sample(6, seed=1).equals(model.sample(6, seed=1))


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_before_a_step_the_set_has_the_moments_of_its_class(ema_decay):
    images, labels = stripes(1000, 0)
    warm = replace(WARM, samples_per_class=400, ema_decay=ema_decay, start_steps=0)
    for found in begun(warm, images, labels):
        for label in (0, 1):
            real = images[labels == label] / 255
            np.testing.assert_allclose(found[label].mean(axis=0), real.mean(axis=0), atol=0.05)
            np.testing.assert_allclose(found[label].std(axis=0), real.std(axis=0), rtol=0.25)


def test_matching_keeps_the_means_and_asks_for_nothing_more():
    images, labels = stripes(1000, 0)
    drawn, matched = (begun(replace(WARM, start_steps=steps), images, labels)[0] for steps in (0, 20))
    assert not np.array_equal(drawn, matched)
    real = np.stack([images[labels == label].mean(axis=0) / 255 for label in (0, 1)])
    far = [np.abs(found.mean(axis=1) - real).mean() for found in (drawn, matched)]
    assert far[1] < far[0]
    plans = [replace(WARM, start_steps=steps).plan(PIXELS, Budget(epsilon=1.0)) for steps in (0, 20)]
    assert plans[0].plan.queries == plans[1].plan.queries and plans[0].epsilon == plans[1].epsilon


def test_a_record_moves_the_moments_of_its_class_by_the_bound_and_no_more():
    (query,) = replace(WARM, start_bound=0.25).start_queries(PIXELS)
    assert query.norm == pytest.approx(0.25 * 64 * (1 + 1 / 16))
    task = SumTask(feature_map=query.feature_map, grid=query.grid, columns=2, label=0)
    random = np.random.default_rng(0)
    for image in (np.ones(64), np.zeros(64), *random.random((3, 64))):
        for label in (0, 1):
            others = Rows(random.random((5, 64)), random.integers(0, 2, (5, 1)).astype(np.int32))
            record = Rows(image[None], np.array([[label]], np.int32))
            sums = [
                sum_records(one, {"start": task}).sums["start"] for one in (others, Rows.concatenate([others, record]))
            ]
            moved = (sums[1] - sums[0]).astype(np.float64)
            assert 0 < np.linalg.norm(moved) <= UNITS
            assert not moved[1 - label].any()


@pytest.mark.parametrize(
    ("made", "changed", "told"),
    [
        (TABLE, {}, "give image="),
        (PrivateSetGeneration(image=(8, 8, 1)), {"prior": True}, "prior=False"),
        (PrivateSetGeneration(image=(29, 29, 1)), {}, "29 x 29"),
    ],
)
def test_it_is_refused_where_there_is_none(made, changed, told):
    with pytest.raises(OptionError, match=told):
        replace(made, start="gaussians", **changed)


def test_the_draws_follow_from_the_seed():
    made = [begun(replace(WARM, seed=seed), *stripes(100, 0))[0] for seed in (0, 0, 1)]
    assert np.array_equal(made[0], made[1]) and not np.array_equal(made[0], made[2])
