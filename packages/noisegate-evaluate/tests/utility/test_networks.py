from dataclasses import replace

import numpy as np
import pytest
import torch

from noisegate_evaluate import (
    LabelledRows,
    NetworkOptions,
    Training,
    networks,
    utility_scores,
)

BRIEF = Training(epochs=2, device="cpu")


def rows(seed, count=40, classes=3):
    random = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    images = 0.3 * random.random((count, 64)) + 0.5 * np.eye(64)[8 * labels]
    return LabelledRows(
        features=images.reshape(count, 8, 8, 1).astype(np.float32), labels=labels
    )


def scored(*more, names=("mlp",), repeats=3, training=BRIEF, train=None, **options):
    suite = networks(names, NetworkOptions(repeats=repeats, training=training))
    return utility_scores(
        suite,
        train or rows(0),
        *(more or (rows(1),)),
        **{"classes": 3, "jobs": 1, **options},
    )


@pytest.fixture(scope="module")
def report():
    return scored(names=["mlp", "LeNet"], repeats=3, seed=5)


def test_each_network_starts_afresh_for_each_seed(report):
    assert list(report.runs) == ["LeNet", "MLP"]  # the order of the paper
    assert report.seeds == (5, 6, 7)
    accuracies = [run.accuracy for run in report.runs["MLP"]]
    assert report.models["MLP"].accuracy == pytest.approx(np.mean(accuracies))
    assert report.spread["MLP"].accuracy == pytest.approx(np.std(accuracies, ddof=1))
    assert len({run.roc_auc for run in report.runs["MLP"]}) == 3
    assert report.mean.f1 == pytest.approx(
        np.mean([scores.f1 for scores in report.models.values()])
    )


def test_the_test_images_are_read_once_training_is_over(monkeypatch):
    """What is scored cannot have been chosen: the network sees the test images in one pass after the last step."""
    seen = []
    forward = torch.nn.Flatten.forward
    step = torch.optim.SGD.step
    monkeypatch.setattr(
        torch.nn.Flatten,
        "forward",
        lambda self, images: seen.append(len(images)) or forward(self, images),
    )
    monkeypatch.setattr(
        torch.optim.SGD,
        "step",
        lambda self, *arguments: seen.append("step") or step(self, *arguments),
    )
    scored(rows(1, count=17), repeats=1)
    assert seen == [40, "step", 40, "step", 17]


@pytest.mark.slow  # two processes load torch
def test_the_scores_do_not_depend_on_the_number_of_processes(report):
    assert scored(names=["mlp", "LeNet"], repeats=3, seed=5, jobs=2) == report


def stripes(seed, count=160, noise=0.15):
    """Standing stripes are class 0, lying ones class 1, both in noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    wave = np.tile([0.3, 0.7], 4)
    images = np.where(labels[:, None, None] == 1, wave[:, None], wave[None, :])
    images += noise * random.normal(size=images.shape)
    return LabelledRows(
        features=images.reshape(count, 8, 8, 1).clip(0, 1).astype(np.float32),
        labels=labels,
    )


def noise(seed, count):
    """Images that their labels have nothing to do with."""
    random = np.random.default_rng(seed)
    images = random.normal(0.5, 0.2, size=(count, 8, 8, 1)).astype(np.float32)
    return LabelledRows(
        features=images, labels=random.permutation(np.arange(count) % 2)
    )


def trained(name, train, test=None, *, epochs=6, seed=0, classes=2, **more):
    training = Training(
        epochs=epochs,
        device="cpu",
        **{k: more.pop(k) for k in ("augment",) if k in more},
    )
    test = test or stripes(9, 300)
    report = scored(
        test,
        names=[name],
        repeats=1,
        training=training,
        train=train,
        classes=classes,
        seed=seed,
        **more,
    )
    ((outcome,),) = report.outcomes.values()
    return replace(outcome, notes=report.notes)


@pytest.mark.parametrize(
    ("name", "count", "epochs"), [("ConvNet", 32, 30), ("MLP", 160, 30)]
)
def test_an_easy_task_is_learnt(name, count, epochs):
    """By chance the ROC-AUC of 300 test images is 1/2 with a deviation of 0.034."""
    outcome = trained(name, stripes(0, count), epochs=epochs)
    assert outcome.notes == ()
    assert outcome.scores.roc_auc > 0.9


@pytest.mark.parametrize(
    ("name", "count", "epochs"), [("ConvNet", 32, 20), ("MLP", 32, 120)]
)
def test_shuffled_labels_teach_nothing(name, count, epochs):
    """Accuracy on 600 test images is 1/2 with a deviation of 0.0204; 4 of them is a false alarm of 6e-5.

    A network that had seen the test images, or a choice among epochs by their accuracy, would be above.
    """
    outcome = trained(name, noise(0, count), noise(1, 600), epochs=epochs)
    assert abs(outcome.scores.accuracy - 0.5) < 4 * 0.0204
    # It has learnt all the same: its own images it knows.
    known = trained(name, noise(0, count), noise(0, count), epochs=epochs)
    assert known.scores.accuracy > 0.8


@pytest.mark.parametrize("count", [2, 257])
def test_fewer_images_than_a_batch_and_a_last_batch_of_one_work(count):
    train = stripes(1, count)
    train.labels[:2] = 0, 1
    assert trained("ConvNet", train, epochs=1).notes == ()


def test_weights_that_overflow_are_a_constant_predictor_with_a_note(monkeypatch):
    monkeypatch.setattr("noisegate_evaluate.utility.training.LEARNING_RATE", 1e30)
    outcome = trained("MLP", stripes(0, 32))
    assert outcome.scores.roc_auc == 0.5
    assert "not finite" in outcome.notes[0]


def test_images_are_standardised_so_that_a_channel_may_have_any_scale():
    train = stripes(0)
    test = stripes(9, 300)
    dim = [
        LabelledRows(features=rows.features / 1024, labels=rows.labels)
        for rows in (train, test)
    ]
    assert (
        trained("MLP", *dim).scores == trained("MLP", train, test).scores
    )  # a power of two changes no digit


def test_the_ranking_is_of_the_margin_and_not_of_one_logit(monkeypatch):
    labels = np.arange(40) % 2
    random = np.random.default_rng(0)
    pixels = np.zeros((40, 64), dtype=np.float32)
    pixels[:, 0] = random.uniform(-1, 1, 40)
    pixels[:, 1] = pixels[:, 0] + np.where(labels == 1, 0.01, -0.01)
    linear = torch.nn.Linear(64, 2, bias=False)
    linear.weight.data = torch.eye(64)[:2]
    monkeypatch.setattr(
        "noisegate_evaluate.utility.networks.build_network",
        lambda *_, **__: torch.nn.Sequential(torch.nn.Flatten(), linear),
    )
    monkeypatch.setattr("noisegate_evaluate.utility.training.LATER_RATE", 0.0)
    monkeypatch.setattr("noisegate_evaluate.utility.training.LEARNING_RATE", 0.0)
    rows = LabelledRows(features=pixels.reshape(40, 8, 8, 1), labels=labels)
    assert trained("MLP", rows, rows, epochs=1).scores.roc_auc == 1.0
