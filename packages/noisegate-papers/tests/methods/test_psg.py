from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.shared.columns import boolean, categorical, continuous
from tests.shared.feature_space import moves

from noisegate import Budget, Gate, PrivateSetGeneration, Synthesizer
from noisegate.gate import samples
from noisegate.methods.gradient import STATE_FILE
from noisegate.models.folder import verify_model
from noisegate.privacy import noise as gate_noise
from noisegate.privacy.gradient_plan import steps_of
from noisegate.privacy.grid import UNITS
from noisegate.records import Rows
from noisegate.schema import ImageShape, Schema, pixel_schema
from noisegate_images.networks.classifiers import build_convnet
from noisegate_papers.models.inputs import decode_inputs, inputs_of
from noisegate_papers.training import synthetic_set

SHAPE = ImageShape(height=8, width=8)
PIXELS = pixel_schema(8, 8, labels=("across", "down"))
IMAGES = PrivateSetGeneration(
    samples_per_class=3,
    image=(8, 8, 1),
    width=8,
    depth=2,
    steps=30,
    sampling_probability=0.06,
    clip_norm=1.0,
    epochs=5,
    learning_rate=1.0,
)
MIXED = Schema(
    (
        continuous("u", -5.0, 5.0),
        continuous("v", missing=True),
        categorical("c", "rgb"),
        boolean("y"),
    ),
    label="y",
)
TABLE = PrivateSetGeneration(
    samples_per_class=4,
    hidden=(6,),
    steps=7,
    sampling_probability=0.1,
    clip_norm=1.0,
    batches=2,
    outer=2,
    epochs=2,
    centre=0.5,
)


def stripes(rows, seed, *, shuffled=False):
    """Stripes across or down in noise; intensities from 0 to 255."""
    random = np.random.default_rng(seed)
    down, images = random.integers(0, 2, rows), random.integers(0, 120, (rows, 8, 8))
    across = (np.arange(8) % 4 < 2)[:, None] * np.ones(8)
    images = images + 135 * np.where(down[:, None, None] == 1, across.T, across)
    labels = random.permutation(down) if shuffled else down
    return images.reshape(rows, -1).astype(np.int64), labels


def pixel_table(rows=600, seed=0, **options):
    images, labels = stripes(rows, seed, **options)
    columns = [pa.array(column) for column in images.T]
    return pa.table(
        [*columns, pa.array(np.array(["across", "down"])[labels])],
        names=list(PIXELS.names),
    )


def mixed_table(rows=200):
    random = np.random.default_rng(0)
    v = pa.array(random.random(rows), mask=random.random(rows) < 0.3)
    return pa.table(
        {
            "u": random.random(rows),
            "v": v,
            "c": random.choice(["r", "g", "b"], rows),
            "y": random.random(rows) < 0.5,
        }
    )


def gate(table=None, schema=MIXED, **options):
    table = mixed_table() if table is None else table
    return Gate(
        table, schema=schema, **{"epsilon": 20.0, "records": table.num_rows, **options}
    )


def judged(table):
    """Accuracy on fresh images of a network that is trained on a synthetic table alone."""
    made = torch.tensor(
        np.stack([table[name].to_numpy() for name in PIXELS.names[:-1]], axis=1) / 255
    )
    labels = torch.tensor(
        [name == "down" for name in table["label"].to_pylist()]
    ).long()
    network = build_convnet(SHAPE, 2, width=8, depth=2, seed=11)
    descent = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _ in range(60):
        descent.zero_grad()
        torch.nn.functional.cross_entropy(
            network(made.float().reshape(-1, 1, 8, 8)), labels
        ).backward()
        descent.step()
    images, right = stripes(500, 1)
    with torch.no_grad():
        found = (
            network(torch.tensor(images / 255).float().reshape(-1, 1, 8, 8))
            .argmax(dim=1)
            .numpy()
        )
    return (found == right).mean()


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_set_teaches_an_easy_task_and_with_shuffled_labels_does_not(
    shuffled, monkeypatch
):
    """Samples and noise follow from a seed here: a set that learnt nothing is right or wrong by chance."""
    random = np.random.default_rng(0)

    def noise(sums, *, noise_std, sampler):
        return sums + np.rint(noise_std * random.standard_normal(len(sums))).astype(
            np.int64
        )

    monkeypatch.setattr(gate_noise, "add_noise", noise)
    monkeypatch.setattr(
        samples,
        "poisson_sample",
        lambda rows, rate, _: np.flatnonzero(random.random(rows) < rate),
    )
    asked = gate(pixel_table(1000, shuffled=shuffled), PIXELS, epsilon=50.0)
    score = judged(IMAGES.fit(asked, device="cpu").sample(6, seed=0))
    assert score < 0.75 if shuffled else score > 0.9


def test_a_run_that_is_taken_up_again_gives_the_same_bits(tmp_path, monkeypatch):
    """With samples and noise that follow from the step; 4 steps are a run, so one stop is where a network is drawn."""
    drawn = []

    def noise(sums, **options):
        drawn.append(len(sums))
        random = np.random.default_rng(len(drawn))
        return sums + random.integers(-(2**20), 2**20, len(sums))

    monkeypatch.setattr(gate_noise, "add_noise", noise)
    monkeypatch.setattr(
        samples, "poisson_sample", lambda records, rate, _: np.arange(len(drawn), 40)
    )
    # Smaller than the set, so that the order of its records matters.
    monkeypatch.setattr(synthetic_set, "INNER_BATCH", 3)
    whole = TABLE.query(gate())
    for stop in (3, 4, 5):
        (folder := tmp_path / f"{stop}").mkdir()
        drawn.clear()

        def interrupt(done, stop=stop):
            if done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            TABLE.query(gate(), folder=folder, report=interrupt)
        assert (folder / STATE_FILE).exists()
        again = TABLE.query(gate(), folder=folder)
        assert len(drawn) == 7
        assert np.array_equal(whole.values["set"], again.values["set"])


def test_a_table_becomes_a_balanced_set_that_is_saved_and_drawn_from(
    tmp_path, monkeypatch
):
    # Without noise, which is drawn anew in every run: a loud one may carry each of the few records to a bound.
    monkeypatch.setattr(gate_noise, "add_noise", lambda sums, **options: sums)
    synthesizer = TABLE.fit(gate(), device="cpu")
    table = synthesizer.sample(8, seed=0)
    assert sorted(table["y"].to_pylist()) == [False] * 4 + [True] * 4
    assert table.schema.names == ["u", "v", "c", "y"]
    assert len(set(table["u"].to_pylist())) > 2
    folder = synthesizer.save(tmp_path / "model")
    assert all(Synthesizer.load(folder).sample(9, where={"y": True})["y"].to_pylist())


def test_what_a_network_was_shown_becomes_the_most_probable_record():
    inputs = inputs_of(MIXED, centre=0.25)
    shown = np.array(
        [
            # u, v times its chance to be there, the chance that it is not, and shares of r, g, b.
            [-0.5, 0.6, 0.2, 0.2, 0.5, 0.3],
            [1.5, 0.1, 0.9, 0.6, 0.2, 0.2],
        ]
    )
    records = decode_inputs(shown, inputs, MIXED, np.arange(2))
    assert np.allclose(
        records.numeric, [[0.0, 0.25 + 0.75 / 2], [1.0, np.nan]], equal_nan=True
    )
    assert records.codes.tolist() == [[1, 0], [0, 1]]


@pytest.mark.slow
def test_images_of_a_prior_come_from_one_network():
    method = replace(IMAGES, prior=True, steps=4, learning_rate=0.01)
    synthesizer = method.fit(gate(pixel_table(100), PIXELS), device="cpu")
    assert synthesizer.sample(6).num_rows == 6
    plan = method.plan(PIXELS, Budget(epsilon=20.0))
    free, made = (
        chosen.training(PIXELS, plan, 1.0, "cpu").result()["set"]
        for chosen in (IMAGES, method)
    )
    assert free.std() > 0.3
    assert (
        made.std() < 0.1
    )  # a network that was not trained makes much the same dark image everywhere


def test_images_of_the_papers_prior_come_from_a_dcgan():
    schema = pixel_schema(28, 28, labels=("across", "down"))
    method = replace(
        IMAGES, image=(28, 28, 1), prior=True, prior_network="dcgan", learning_rate=0.01
    )
    training = method.training(
        schema, method.plan(schema, Budget(epsilon=20.0)), 1.0, "cpu"
    )
    made = training.result()["set"].reshape(2, 3, -1)
    assert made.shape[2] == 784
    # A class and a noise vector each make an image of their own.
    assert not torch.allclose(made[0, 0], made[1, 0], atol=1e-4)
    assert not torch.allclose(made[0, 0], made[0, 1], atol=1e-4)


def test_the_average_over_the_steps_is_released_and_survives_an_interruption():
    method = replace(IMAGES, ema_decay=0.6, batches=1, outer=2, epochs=0)
    plan = method.plan(PIXELS, Budget(epsilon=20.0))
    training, resumed, plain = (
        chosen.training(PIXELS, plan, 1.0, "cpu")
        for chosen in (method, method, replace(method, ema_decay=0.0))
    )
    average, random = plain.result()["set"].clone(), torch.Generator().manual_seed(0)
    for step in range(1, 8):
        noisy = {
            name: torch.randn(value.shape, generator=random)
            for name, value in training.parameters().items()
        }
        if step == 5:
            resumed.load_state_dict(training.state_dict())
        for one in [training, plain] + [resumed] * (step >= 5):
            one.step(noisy)
        kept = min(0.6, step / (step + 9))
        average = kept * average + (1 - kept) * plain.result()["set"]
    assert torch.allclose(training.result()["set"], average, atol=1e-5)
    assert torch.equal(resumed.result()["set"], training.result()["set"])
    assert not torch.allclose(average, plain.result()["set"], atol=1e-2)


def test_the_loss_of_a_record_is_the_cross_entropy_of_its_label():
    network = IMAGES.network(PIXELS, 0)
    images, labels = stripes(5, 0)
    positions = torch.tensor(images / 255).float()
    loss = IMAGES.loss(PIXELS)
    expected = torch.nn.functional.cross_entropy(
        network(2 * positions), torch.tensor(labels), reduction="none"
    )
    for row in range(5):
        found = loss(
            dict(network.named_parameters()),
            positions[row],
            torch.tensor([labels[row]]),
        )
        assert torch.isclose(found, expected[row], atol=1e-5)


# PSG's warm start: moments of small images are bought beside the steps, and the set begins as draws from them.

WARM = replace(IMAGES, start="gaussians", start_share=0.5, start_bound=1.0)


def begun(method, images, labels):
    """Returns the set, (classes, each, pixels), and its average, as they begin where the moments have no noise."""
    (query,) = method.start_queries(PIXELS)
    rows = [
        Rows(
            images[labels == label] / 255,
            np.zeros(((labels == label).sum(), 1), np.int32),
        )
        for label in (0, 1)
    ]
    sums = np.stack(
        [query.feature_map(one).astype(np.float64).sum(axis=0) for one in rows], axis=1
    )
    plan = SimpleNamespace(
        releases=[SimpleNamespace(query=query, noise_std_natural=1e-6)]
    )
    session = SimpleNamespace(
        plan=plan,
        prepare_steps=lambda parameters: None,
        ask=lambda maps: {"start": sums},
    )
    training = method.training(PIXELS, None, 1.0, "cpu")
    method.before_steps(None, session, training)
    moved = training._set.inputs().detach().numpy()
    return moved.reshape(2, -1, 64) / 2, training.result()["set"].numpy().reshape(
        2, -1, 64
    ) / 2


def test_one_plan_has_the_moments_and_the_steps_and_a_model_is_verified(tmp_path):
    model = replace(WARM, steps=1).fit(gate(pixel_table(), PIXELS), device="cpu")
    events = {event.name: event for event in model.release.certificate.events}
    # 64 pixels and the number before them, for each of two classes.
    assert (
        set(events) == {"start", "set"}
        and events["start"].coordinates == 2 * 65 * 66 // 2
    )
    model.save(tmp_path / "model")
    assert 19.5 < verify_model(tmp_path / "model").recomputed_epsilon <= 20.0
    assert (
        Synthesizer.load(tmp_path / "model")
        .sample(6, seed=1)
        .equals(model.sample(6, seed=1))
    )


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_before_a_step_the_set_has_the_moments_of_its_class(ema_decay):
    images, labels = stripes(1000, 0)
    warm = replace(WARM, samples_per_class=400, ema_decay=ema_decay, start_steps=0)
    for found in begun(warm, images, labels):
        for label in (0, 1):
            real = images[labels == label] / 255
            np.testing.assert_allclose(
                found[label].mean(axis=0), real.mean(axis=0), atol=0.05
            )
            np.testing.assert_allclose(
                found[label].std(axis=0), real.std(axis=0), rtol=0.25
            )


def test_matching_keeps_the_means_and_asks_for_nothing_more():
    images, labels = stripes(1000, 0)
    drawn, matched = (
        begun(replace(WARM, start_steps=steps), images, labels)[0] for steps in (0, 20)
    )
    assert not np.array_equal(drawn, matched)
    real = np.stack([images[labels == label].mean(axis=0) / 255 for label in (0, 1)])
    far = [np.abs(found.mean(axis=1) - real).mean() for found in (drawn, matched)]
    assert far[1] < far[0]
    plans = [
        replace(WARM, start_steps=steps).plan(PIXELS, Budget(epsilon=1.0))
        for steps in (0, 20)
    ]
    assert (
        steps_of(plans[0]).query.queries == steps_of(plans[1]).query.queries
        and plans[0].epsilon == plans[1].epsilon
    )


def test_a_record_moves_the_moments_of_its_class_by_the_bound_and_no_more():
    (query,) = replace(WARM, start_bound=0.25).start_queries(PIXELS)
    assert query.norm == pytest.approx(0.25 * 64 * (1 + 1 / 16))
    for moved, other in moves(query, 64):
        assert 0 < moved <= UNITS and other == 0


@pytest.mark.slow
def test_the_draws_follow_from_the_seed():
    made = [begun(replace(WARM, seed=seed), *stripes(100, 0))[0] for seed in (0, 0, 1)]
    assert np.array_equal(made[0], made[1]) and not np.array_equal(made[0], made[2])
