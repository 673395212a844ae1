from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from noisegate import Budget, Gate, PrivateSetGeneration, Synthesizer
from noisegate.errors import OptionError
from noisegate.gate import samples
from noisegate.methods.gradient import STATE_FILE
from noisegate.models.folder import verify_model
from noisegate.privacy import noise as gate_noise
from noisegate.schema import Boolean, Categorical, Continuous, ImageShape, Schema, pixel_schema
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
        Continuous(name="u", lower=-5.0, upper=5.0),
        Continuous(name="v", lower=0.0, upper=1.0, missing=True),
        Categorical(name="c", levels=("r", "g", "b")),
        Boolean(name="y"),
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
    return pa.table([*columns, pa.array(np.array(["across", "down"])[labels])], names=list(PIXELS.names))


def mixed_table(rows=200):
    random = np.random.default_rng(0)
    v = pa.array(random.random(rows), mask=random.random(rows) < 0.3)
    return pa.table(
        {"u": random.random(rows), "v": v, "c": random.choice(["r", "g", "b"], rows), "y": random.random(rows) < 0.5}
    )


def gate(table=None, schema=MIXED, **options):
    table = mixed_table() if table is None else table
    return Gate(table, schema=schema, **{"epsilon": 20.0, "records": table.num_rows, **options})


def judged(table):
    """Accuracy on fresh images of a network that is trained on a synthetic table alone."""
    made = torch.tensor(np.stack([table[name].to_numpy() for name in PIXELS.names[:-1]], axis=1) / 255)
    labels = torch.tensor([name == "down" for name in table["label"].to_pylist()]).long()
    network = build_convnet(SHAPE, 2, width=8, depth=2, seed=11)
    descent = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _ in range(60):
        descent.zero_grad()
        torch.nn.functional.cross_entropy(network(made.float().reshape(-1, 1, 8, 8)), labels).backward()
        descent.step()
    images, right = stripes(500, 1)
    with torch.no_grad():
        found = network(torch.tensor(images / 255).float().reshape(-1, 1, 8, 8)).argmax(dim=1).numpy()
    return (found == right).mean()


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_set_teaches_an_easy_task_and_with_shuffled_labels_does_not(shuffled, monkeypatch):
    """Samples and noise follow from a seed here: a set that learnt nothing is right or wrong by chance."""
    random = np.random.default_rng(0)

    def noise(sums, *, noise_std, sampler):
        return sums + np.rint(noise_std * random.standard_normal(len(sums))).astype(np.int64)

    monkeypatch.setattr(gate_noise, "add_noise", noise)
    monkeypatch.setattr(samples, "poisson_sample", lambda rows, rate, _: np.flatnonzero(random.random(rows) < rate))
    asked = gate(pixel_table(1000, shuffled=shuffled), PIXELS, epsilon=50.0)
    score = judged(IMAGES.fit(asked, device="cpu").sample(6, seed=0))
    assert score < 0.75 if shuffled else score > 0.9


@pytest.mark.parametrize("stop", [3, 4, 5])
def test_a_run_that_is_taken_up_again_gives_the_same_bits(tmp_path, monkeypatch, stop):
    """With samples and noise that follow from the step; 4 steps are a run, so one stop is where a network is drawn."""
    drawn = []

    def noise(sums, **options):
        drawn.append(len(sums))
        random = np.random.default_rng(len(drawn))
        return sums + random.integers(-(2**20), 2**20, len(sums))

    monkeypatch.setattr(gate_noise, "add_noise", noise)
    monkeypatch.setattr(samples, "poisson_sample", lambda records, rate, _: np.arange(len(drawn), 40))
    # Smaller than the set, so that the order of its records matters.
    monkeypatch.setattr(synthetic_set, "INNER_BATCH", 3)
    whole = TABLE.query(gate())
    drawn.clear()

    def interrupt(done):
        if done == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TABLE.query(gate(), folder=tmp_path, report=interrupt)
    assert (tmp_path / STATE_FILE).exists()
    again = TABLE.query(gate(), folder=tmp_path)
    assert len(drawn) == 7
    assert np.array_equal(whole.values["set"], again.values["set"])


def test_a_table_becomes_a_balanced_set_that_is_saved_and_drawn_from(tmp_path, monkeypatch):
    # Without noise, which is drawn anew in every run: a loud one may carry each of the few records to a bound.
    monkeypatch.setattr(gate_noise, "add_noise", lambda sums, **options: sums)
    steps = []
    synthesizer = TABLE.fit(gate(), device="cpu", report=lambda state: steps.append((state.step, state.steps)))
    assert steps == [(step, 7) for step in range(1, 8)]
    table = synthesizer.sample(8, seed=0)
    assert sorted(table["y"].to_pylist()) == [False] * 4 + [True] * 4
    assert table.schema.names == ["u", "v", "c", "y"]
    assert len(set(table["u"].to_pylist())) > 2
    folder = synthesizer.save(tmp_path / "model")
    assert verify_model(folder).certificate.method == "psg"
    assert Synthesizer.load(folder).sample(20, seed=1).equals(synthesizer.sample(20, seed=1))
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
    assert np.allclose(records.numeric, [[0.0, 0.25 + 0.75 / 2], [1.0, np.nan]], equal_nan=True)
    assert records.codes.tolist() == [[1, 0], [0, 1]]


def test_images_of_a_prior_come_from_one_network():
    method = replace(IMAGES, prior=True, steps=4, learning_rate=0.01)
    synthesizer = method.fit(gate(pixel_table(100), PIXELS), device="cpu")
    assert synthesizer.sample(6).num_rows == 6
    plan = method.plan(PIXELS, Budget(epsilon=20.0))
    free, made = (chosen.training(PIXELS, plan, 1.0, "cpu").result()["set"] for chosen in (IMAGES, method))
    assert free.std() > 0.3
    # A network that was not trained makes much the same dark image everywhere.
    assert made.std() < 0.1


def test_images_of_the_papers_prior_come_from_a_dcgan():
    schema = pixel_schema(28, 28, labels=("across", "down"))
    method = replace(IMAGES, image=(28, 28, 1), prior=True, prior_network="dcgan", learning_rate=0.01)
    training = method.training(schema, method.plan(schema, Budget(epsilon=20.0)), 1.0, "cpu")
    made = training.result()["set"].reshape(2, 3, -1)
    assert made.shape[2] == 784
    # A class and a noise vector each make an image of their own.
    assert not torch.allclose(made[0, 0], made[1, 0], atol=1e-4)
    assert not torch.allclose(made[0, 0], made[0, 1], atol=1e-4)
    with pytest.raises(OptionError, match="even and 22 or more"):
        PrivateSetGeneration(prior=True, prior_network="dcgan", image=(20, 20, 1))


def test_the_average_over_the_steps_is_released_and_survives_an_interruption():
    method = replace(IMAGES, ema_decay=0.6, batches=1, outer=2, epochs=0)
    plan = method.plan(PIXELS, Budget(epsilon=20.0))
    training, resumed, plain = (
        chosen.training(PIXELS, plan, 1.0, "cpu") for chosen in (method, method, replace(method, ema_decay=0.0))
    )
    average, random = plain.result()["set"].clone(), torch.Generator().manual_seed(0)
    for step in range(1, 8):
        noisy = {name: torch.randn(value.shape, generator=random) for name, value in training.parameters().items()}
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
    expected = torch.nn.functional.cross_entropy(network(2 * positions), torch.tensor(labels), reduction="none")
    for row in range(5):
        found = loss(dict(network.named_parameters()), positions[row], torch.tensor([labels[row]]))
        assert torch.isclose(found, expected[row], atol=1e-5)
