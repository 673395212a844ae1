"""Networks chosen by synthetic images: what is chosen by what, and that the test images are read once, at the end."""

import numpy as np
import pytest

from noisegate.schema import ImageShape
from noisegate_evaluate import LabelledRows, SelectionRecipe, selected_networks, utility_scores
from noisegate_evaluate.utility import training
from noisegate_evaluate.utility.networks import build_network

BRIEF = SelectionRecipe(epochs=2, batch=16, held_out=0.25, shift=1, device="cpu")


def stripes(seed, count=96, noise=0.15):
    """Standing stripes are class 0, lying ones class 1, both in noise."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    wave = np.tile([0.3, 0.7], 4)
    images = np.where(labels[:, None, None] == 1, wave[:, None], wave[None, :]) + noise * random.normal(
        size=(count, 8, 8)
    )
    return LabelledRows(features=images.reshape(count, 8, 8, 1).clip(0, 1).astype(np.float32), labels=labels)


def scored(train, test=None, *, networks=("cnn",), repeats=1, recipe=BRIEF, **options):
    suite = selected_networks(networks, repeats=repeats, selection=recipe)
    return utility_scores(suite, train, test or stripes(9, 200), classes=2, jobs=1, **options)


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def report(told):
    recipe = SelectionRecipe(epochs=5, batch=16, shift=1, device="cpu")
    return scored(stripes(0, 120), repeats=2, seed=4, recipe=recipe, progress=lambda *said: told.append(said))


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
    first, again, other = (scored(stripes(0, noise=0.6), seed=seed) for seed in (1, 1, 2))
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
    other = scored(stripes(0), LabelledRows(features=test.features, labels=1 - test.labels))
    assert other.choices == first.choices
    assert other.runs != first.runs


@pytest.mark.parametrize(("accuracies", "chosen"), [([0.5, 0.9, 0.7], 2), ([0.5, 0.8, 0.8], 3), ([0.9, 0.8, 0.7], 1)])
def test_the_epoch_is_the_best_on_the_held_out_images_and_of_equals_the_last(monkeypatch, accuracies, chosen):
    """Ten held-out images, of which so many are called right; the test logits tell whose weights were kept."""
    import torch

    held = iter(accuracies)
    weights = []

    def made_up(network, images, places=None):
        weights.append(next(network.parameters()).detach().clone().numpy())
        if places is None:
            return torch.zeros((len(images), 2))
        labels = images.rows.labels[places]
        right = np.arange(len(places)) < round(next(held) * len(places))
        return torch.eye(2)[np.where(right, labels, 1 - labels)]

    monkeypatch.setattr(training, "_logits", made_up)
    recipe = SelectionRecipe(epochs=3, batch=10, held_out=0.25, shift=0, device="cpu")
    report = scored(stripes(0, 40), recipe=recipe)
    (choice,) = report.choices["cnn"]
    assert choice.held_out_accuracy == (tuple(accuracies),)
    assert choice.epoch == chosen
    assert [np.array_equal(one, weights[-1]) for one in weights[:3]] == [epoch == chosen for epoch in (1, 2, 3)]


def test_of_several_learning_rates_the_better_one_is_chosen():
    recipe = SelectionRecipe(epochs=3, batch=16, learning_rates=(1e-9, 1e-2), shift=0, device="cpu")
    (choice,) = scored(stripes(0, 120), recipe=recipe).choices["cnn"]
    assert choice.rate == 1e-2
    assert len(choice.held_out_accuracy) == 2


def test_held_out_images_are_not_trained_on(monkeypatch):
    import torch

    held = set(training._split(96, 0.25, 0)[1].tolist())
    assert len(held) == 24
    trained = []
    batch = training.ImageBatches.batch

    def watched(self, places):
        if torch.is_grad_enabled():
            trained.extend(places.tolist())
        return batch(self, places)

    monkeypatch.setattr(training.ImageBatches, "batch", watched)
    scored(stripes(0))
    assert set(trained) == set(range(96)) - held
    assert len(trained) == 2 * 72


def test_whole_numbers_up_to_255_are_the_same_images():
    import torch

    grid = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 1), dtype=np.uint8)
    places = np.arange(20)
    batches = [
        training.ImageBatches(LabelledRows(features=rows, labels=places), torch.device("cpu"), standard=places).batch(
            places
        )
        for rows in (grid, grid.astype(np.float32) / 255)
    ]
    assert torch.allclose(*batches, atol=1e-5)
    assert batches[0].std() == pytest.approx(1.0, abs=0.01)


def test_images_are_moved_by_whole_pixels_within_their_edges():
    import torch

    images = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5).repeat(100, 1, 1, 1)
    moved = training.shifted(images, 1, np.random.default_rng(0))
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="replicate")
    seen = set()
    for row in range(200):
        fits = [
            (down, right)
            for down in range(3)
            for right in range(3)
            if torch.equal(moved[row], padded[row, :, down : down + 4, right : right + 5])
        ]
        assert len(fits) == 1
        seen.update(fits)
    assert len(seen) == 9


def test_images_are_standardised_by_those_trained_on_alone():
    rows = LabelledRows(
        features=np.array([[0.0, 0.5], [1.0, 0.5], [9.0, 9.0]], np.float32)[:, None, None], labels=np.zeros(3, int)
    )
    import torch

    images = training.ImageBatches(rows, torch.device("cpu"), standard=np.array([0, 1]))
    assert images.batch(np.array([0, 1])).reshape(2, 2).tolist() == [[-1.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize(("labels", "reason"), [([0] * 20, "have 1 class"), ([0, 1], "there are 2 training images")])
def test_what_cannot_be_learnt_is_a_constant_predictor_with_a_note(labels, reason):
    train = LabelledRows(features=stripes(0).features[: len(labels)], labels=np.array(labels))
    report = scored(train)
    assert report.models["cnn"].roc_auc == 0.5
    assert report.choices == {"cnn": (None,)}
    (note,) = report.notes
    assert reason in note


@pytest.mark.parametrize(("name", "weights"), [("cnn", 71_466), ("resnet9", 2_273_728), ("wrn", 691_386)])
def test_each_network_has_its_size_and_takes_images_of_any_size(name, weights):
    import torch

    network = build_network(name, ImageShape(height=28, width=28), 10, seed=0)
    assert sum(part.numel() for part in network.parameters()) == weights
    for shape in (ImageShape(height=28, width=28), ImageShape(height=1, width=9, channels=3)):
        network = build_network(name, shape, 10, seed=0).eval()
        assert network(torch.zeros(2, shape.channels, shape.height, shape.width)).shape == (2, 10)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 100])
def test_the_learning_rate_rises_once_and_falls_to_nothing(steps):
    """However few steps there are: a schedule of torch that divides by them fails at four."""
    shares = [training._cycle(step, steps) for step in range(steps + 1)]
    highest = int(np.argmax(shares))
    assert max(shares) <= 1
    assert min(shares[:steps]) > 0
    assert shares[-1] == pytest.approx(0, abs=1e-9)
    assert shares[: highest + 1] == sorted(shares[: highest + 1])
    assert shares[highest:] == sorted(shares[highest:], reverse=True)
    if steps == 100:
        assert highest == 25
