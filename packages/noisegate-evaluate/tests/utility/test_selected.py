"""Networks chosen by synthetic images: what is chosen by what, and that the test images are read once, at the end."""

import numpy as np
import pytest
import torch

from noisegate.schema import ImageShape
from noisegate_evaluate import (
    LabelledRows,
    SelectionRecipe,
    read_classifiers,
    utility_scores,
)
from noisegate_evaluate.utility import training
from noisegate_evaluate.utility.networks import build_network

from .test_networks import stripes

BRIEF = SelectionRecipe(epochs=2, batch=16, held_out=0.25, shift=1, device="cpu")


def scored(train, test=None, *, networks="cnn", repeats=1, recipe=BRIEF, **options):
    suite = read_classifiers(networks, repeats=repeats, selection=recipe)
    return utility_scores(
        suite, train, test or stripes(9, 200), classes=2, jobs=1, **options
    )


@pytest.fixture(scope="module")
def report():
    recipe = SelectionRecipe(epochs=5, batch=16, shift=1, device="cpu")
    return scored(stripes(0, 120), repeats=2, seed=4, recipe=recipe)


def test_an_easy_task_is_learnt(report):
    """By chance the accuracy on 200 test images is 1/2 with a deviation of 0.035."""
    assert report.models["cnn"].accuracy > 0.9
    assert report.notes == ()


def test_each_start_has_its_seed_and_its_choice(report):
    assert report.seeds == (4, 5)
    assert len(report.runs["cnn"]) == len(report.choices["cnn"]) == 2
    for choice in report.choices["cnn"]:
        (accuracies,) = choice.held_out_accuracy
        assert len(accuracies) == 5
        assert accuracies[choice.epoch - 1] == max(accuracies)
        assert max(accuracies) not in accuracies[choice.epoch :]
    assert report.spread["cnn"].accuracy >= 0


def test_a_seed_gives_the_same_scores_and_another_one_others():
    first, again, other = (
        scored(stripes(0, noise=0.6), seed=seed) for seed in (1, 1, 2)
    )
    assert first.to_json()["models"] == again.to_json()["models"]
    assert first.choices != other.choices or first.runs != other.runs


def test_the_test_images_are_asked_about_once_when_all_is_chosen(monkeypatch):
    asked = []
    kept = training._logits

    def watched(network, images, places=None):
        asked.append("test" if places is None else "held out")
        return kept(network, images, places)

    monkeypatch.setattr(training, "_logits", watched)
    test = stripes(9, 40)
    first = scored(stripes(0), test)
    assert asked == ["held out", "held out", "test"]
    # What the test labels are changes the scores and nothing that was chosen.
    other = scored(
        stripes(0), LabelledRows(features=test.features, labels=1 - test.labels)
    )
    assert other.choices == first.choices
    assert other.runs != first.runs


def test_held_out_images_are_not_trained_on(monkeypatch):
    held = set(training._split(160, 0.25, 0)[1].tolist())
    assert len(held) == 40
    trained = []
    batch = training.ImageBatches.batch

    def watched(self, places):
        if torch.is_grad_enabled():
            trained.extend(places.tolist())
        return batch(self, places)

    monkeypatch.setattr(training.ImageBatches, "batch", watched)
    scored(stripes(0))
    assert set(trained) == set(range(160)) - held
    assert len(trained) == 2 * 120


def test_images_are_standardised_by_those_trained_on_alone():
    rows = LabelledRows(
        features=np.array([[0.0, 0.5], [1.0, 0.5], [9.0, 9.0]], np.float32)[
            :, None, None
        ],
        labels=np.zeros(3, int),
    )
    images = training.ImageBatches(rows, torch.device("cpu"), standard=np.array([0, 1]))
    assert images.batch(np.array([0, 1])).reshape(2, 2).tolist() == [
        [-1.0, 0.0],
        [1.0, 0.0],
    ]


@pytest.mark.parametrize(
    ("labels", "reason"),
    [([0] * 20, "have 1 class"), ([0, 1], "there are 2 training images")],
)
def test_what_cannot_be_learnt_is_a_constant_predictor_with_a_note(labels, reason):
    train = LabelledRows(
        features=stripes(0).features[: len(labels)], labels=np.array(labels)
    )
    report = scored(train)
    assert report.models["cnn"].roc_auc == 0.5
    assert report.choices == {"cnn": (None,)}
    (note,) = report.notes
    assert reason in note


@pytest.mark.parametrize("name", ["cnn", "resnet9", "wrn"])
def test_each_network_takes_images_of_any_size(name):
    for shape in (
        ImageShape(height=28, width=28),
        ImageShape(height=1, width=9, channels=3),
    ):
        network = build_network(name, shape, 10, seed=0).eval()
        assert network(
            torch.zeros(2, shape.channels, shape.height, shape.width)
        ).shape == (2, 10)
