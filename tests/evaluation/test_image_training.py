"""Training of networks on tiny images: what is learnt, from what, and that chance stays chance."""

import numpy as np
import pytest

from noisegate.errors import DataError, OptionError
from noisegate.evaluation.image_training import (
    LATER_RATE,
    LEARNING_RATE,
    Training,
    _images,
    train_and_score_network,
)
from noisegate.evaluation.training import LabelledRows
from noisegate.schema import ImageShape

SHAPE = ImageShape(height=8, width=8)


def stripes(seed, count=160):
    """Standing stripes are class 0, lying ones class 1, both in noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    wave = np.tile([0.3, 0.7], 4)
    images = np.where(labels[:, None, None] == 1, wave[:, None], wave[None, :]) + 0.15 * random.normal(
        size=(count, 8, 8)
    )
    return LabelledRows(features=images.reshape(count, 64).astype(np.float32), labels=labels)


def noise(seed, count):
    """Images that their labels have nothing to do with."""
    random = np.random.default_rng(seed)
    images = random.normal(0.5, 0.2, size=(count, 64)).astype(np.float32)
    return LabelledRows(features=images, labels=random.permutation(np.arange(count) % 2))


def trained(name, train, test=None, *, epochs=6, seed=0, classes=2, **more):
    training = Training(epochs=epochs, device="cpu", **{k: more.pop(k) for k in ("augment",) if k in more})
    return train_and_score_network(
        name, train, test or stripes(9, 300), shape=SHAPE, classes=classes, training=training, seed=seed, **more
    )


@pytest.mark.parametrize(("name", "count", "epochs"), [("ConvNet", 32, 30), ("MLP", 160, 30)])
def test_an_easy_task_is_learnt(name, count, epochs):
    """By chance the ROC-AUC of 300 test images is 1/2 with a deviation of 0.034."""
    outcome = trained(name, stripes(0, count), epochs=epochs)
    assert outcome.notes == ()
    assert outcome.scores.roc_auc > 0.9


@pytest.mark.parametrize(("name", "count", "epochs"), [("ConvNet", 32, 20), ("MLP", 32, 120)])
def test_shuffled_labels_teach_nothing(name, count, epochs):
    """Accuracy on 600 test images is 1/2 with a deviation of 0.0204; 4 of them is a false alarm of 6e-5.

    A network that had seen the test images, or a choice among epochs by their accuracy, would be above.
    """
    outcome = trained(name, noise(0, count), noise(1, 600), epochs=epochs)
    assert abs(outcome.scores.accuracy - 0.5) < 4 * 0.0204
    # It has learnt all the same: its own images it knows.
    known = trained(name, noise(0, count), noise(0, count), epochs=epochs)
    assert known.scores.accuracy > 0.8


def test_a_seed_gives_the_same_scores_and_another_one_others():
    first, again, other = (trained("ConvNet", stripes(0, 48), epochs=1, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.scores != other.scores


def test_augmentation_follows_the_seed_too():
    plain, first, again = (
        trained("MLP", stripes(0, 48), epochs=2, augment=augment, seed=1) for augment in (False, True, True)
    )
    assert first == again
    assert plain.scores != first.scores


@pytest.mark.parametrize("count", [2, 257])
def test_fewer_images_than_a_batch_and_a_last_batch_of_one_work(count):
    train = stripes(1, count)
    train.labels[:2] = 0, 1
    assert trained("ConvNet", train, epochs=1).notes == ()


@pytest.mark.parametrize(("labels", "found"), [([1, 1, 1], 1), ([], 0)])
def test_a_single_class_is_a_constant_predictor_with_a_note(labels, found):
    train = LabelledRows(features=stripes(0).features[: len(labels)], labels=np.array(labels, dtype=np.int64))
    outcome = trained("ResNet18", train)
    assert outcome.scores.roc_auc == 0.5
    assert outcome.notes == (
        f"could not be trained and is scored as a constant predictor (the training images have {found} class(es))",
    )


def test_weights_that_overflow_are_a_constant_predictor_with_a_note(monkeypatch):
    monkeypatch.setattr("noisegate.evaluation.image_training.LEARNING_RATE", 1e30)
    outcome = trained("MLP", stripes(0, 32))
    assert outcome.scores.roc_auc == 0.5
    assert "not finite" in outcome.notes[0]


def test_images_are_standardised_so_that_a_channel_may_have_any_scale():
    train, test = stripes(0), stripes(9, 300)
    dim = [LabelledRows(features=rows.features / 1024, labels=rows.labels) for rows in (train, test)]
    # A power of two changes no digit.
    assert trained("MLP", *dim).scores == trained("MLP", train, test).scores


def test_channels_stand_side_by_side():
    import torch

    rows = np.arange(2 * 24, dtype=np.float32).reshape(2, 24)
    images = _images(rows, ImageShape(height=2, width=4, channels=3), torch.device("cpu"))
    assert images.shape == (2, 3, 2, 4)
    # Row 1, column 2 is the seventh pixel; channel 1 is its second figure.
    assert images[1, 1, 1, 2] == 24 + 6 * 3 + 1


def test_the_ranking_is_of_the_margin_and_not_of_one_logit(monkeypatch):
    import torch

    labels = np.arange(40) % 2
    random = np.random.default_rng(0)
    pixels = np.zeros((40, 64), dtype=np.float32)
    pixels[:, 0] = random.uniform(-1, 1, 40)
    pixels[:, 1] = pixels[:, 0] + np.where(labels == 1, 0.01, -0.01)
    linear = torch.nn.Linear(64, 2, bias=False)
    linear.weight.data = torch.eye(64)[:2]
    monkeypatch.setattr(
        "noisegate.evaluation.image_training.build_network",
        lambda *_, **__: torch.nn.Sequential(torch.nn.Flatten(), linear),
    )
    monkeypatch.setattr("noisegate.evaluation.image_training.LATER_RATE", 0.0)
    monkeypatch.setattr("noisegate.evaluation.image_training.LEARNING_RATE", 0.0)
    rows = LabelledRows(features=pixels, labels=labels)
    assert trained("MLP", rows, rows, epochs=1).scores.roc_auc == 1.0


def test_the_rate_falls_at_half_and_each_epoch_is_told(monkeypatch):
    import torch

    rates, told = [], []
    step = torch.optim.SGD.step

    def watched(self, *arguments):
        rates.append(self.param_groups[0]["lr"])
        assert (self.param_groups[0]["momentum"], self.param_groups[0]["weight_decay"]) == (0.9, 5e-4)
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.SGD, "step", watched)
    trained("MLP", stripes(0, 300), epochs=4, progress=lambda *said: told.append(said))
    assert rates == [LEARNING_RATE] * 4 + [LATER_RATE] * 4  # two batches an epoch
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_epochs_of_the_paper():
    assert (Training().passes, Training(augment=True).passes, Training(epochs=7, augment=True).passes) == (300, 1000, 7)
    assert Training().to_json()["batch"] == 256


@pytest.mark.parametrize("option", [{"epochs": 0}, {"epochs": 1.5}, {"device": "tpu"}])
def test_impossible_settings_are_named(option):
    with pytest.raises(OptionError, match=f"{next(iter(option))} is"):
        Training(**option)


def test_rows_of_another_size_and_unknown_networks_are_refused():
    with pytest.raises(DataError, match="training rows have 63 features; expected 64"):
        trained("MLP", LabelledRows(features=stripes(0).features[:, 1:], labels=stripes(0).labels))
    with pytest.raises(OptionError, match=r"network 'GPT' is not known; expected some of convnet, lenet"):
        trained("GPT", stripes(0))
