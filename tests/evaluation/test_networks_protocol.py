import json

import numpy as np
import pytest

from noisegate.errors import DataError, OptionError
from noisegate.evaluation import CAVEAT, NETWORKS, LabelledRows, NetworkOptions, Training, build_network, network_scores
from noisegate.schema import ImageShape

SHAPE = ImageShape(height=8, width=8)
BRIEF = Training(epochs=2, device="cpu")


def rows(seed, count=40, classes=3):
    random = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    images = 0.3 * random.random((count, 64)) + 0.5 * np.eye(64)[8 * labels]
    return LabelledRows(features=images.astype(np.float32), labels=labels)


def scored(*more, **options):
    settings = {"networks": ["mlp"], "training": BRIEF, "jobs": 1, **options}
    return network_scores(rows(0), *(more or (rows(1),)), shape=SHAPE, classes=3, **settings)


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def report(told):
    return scored(networks=["mlp", "LeNet"], repeats=3, seed=5, progress=lambda *said: told.append(said))


def test_each_network_starts_afresh_for_each_seed(report):
    assert list(report.runs) == ["LeNet", "MLP"]  # the order of the paper
    assert report.protocol.seeds == (5, 6, 7)
    accuracies = [run.accuracy for run in report.runs["MLP"]]
    assert report.models["MLP"].accuracy == pytest.approx(np.mean(accuracies))
    assert report.spread["MLP"].accuracy == pytest.approx(np.std(accuracies, ddof=1))
    assert len({run.roc_auc for run in report.runs["MLP"]}) == 3
    assert report.mean.f1 == pytest.approx(np.mean([scores.f1 for scores in report.models.values()]))


def test_a_start_is_that_of_its_seed_alone(report):
    assert scored(networks=["MLP"], repeats=1, seed=7).runs["MLP"] == report.runs["MLP"][2:]


def test_progress_is_told_of_epochs_and_of_each_training(told):
    assert told[:3] == [
        ("LeNet, seed 5, epoch 1 of 2", 0, 6),
        ("LeNet, seed 5, epoch 2 of 2", 0, 6),
        ("LeNet, seed 5", 1, 6),
    ]
    assert told[-1] == ("MLP, seed 7", 6, 6)


def test_the_json_form_states_the_settings_and_the_caveat(report):
    form = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert form["caveat"] == CAVEAT
    assert form["classifiers"]["training"]["epochs"] == 2
    assert form["classifiers"]["training"]["scored"] == "after the last epoch"
    assert (form["classifiers"]["image"], form["classifiers"]["seeds"]) == ([8, 8, 1], [5, 6, 7])
    assert len(form["models"]["MLP"]["runs"]) == 3


def test_one_start_has_no_spread():
    single = scored(repeats=1)
    assert single.spread == {}
    assert single.to_json()["models"]["MLP"]["standard_deviation"] is None


def test_the_test_images_are_read_once_training_is_over(monkeypatch):
    """What is scored cannot have been chosen: the network sees the test images in one pass after the last step."""
    import torch

    seen = []
    forward, step = torch.nn.Flatten.forward, torch.optim.SGD.step
    monkeypatch.setattr(
        torch.nn.Flatten, "forward", lambda self, images: seen.append(len(images)) or forward(self, images)
    )
    monkeypatch.setattr(torch.optim.SGD, "step", lambda self, *arguments: seen.append("step") or step(self, *arguments))
    scored(rows(1, count=17), repeats=1)
    assert seen == [40, "step", 40, "step", 17]


@pytest.mark.slow  # two processes load torch
def test_the_scores_do_not_depend_on_the_number_of_processes(report):
    assert scored(networks=["mlp", "LeNet"], repeats=3, seed=5, jobs=2) == report


def test_one_class_gives_constant_scores_and_a_note_per_start():
    same = LabelledRows(features=rows(0).features, labels=np.zeros(40, dtype=np.int64))
    report = network_scores(same, rows(1), shape=SHAPE, classes=3, networks=["MLP"], training=BRIEF, repeats=2, jobs=1)
    assert report.mean.roc_auc == 0.5
    assert [note.partition(":")[0] for note in report.notes] == ["MLP, seed 0", "MLP, seed 1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"networks": ["mlp", "bert"]}, "network 'bert' is not known"),
        ({"networks": []}, "network '' is not known"),
        ({"repeats": 0}, "repeats is 0"),
        ({"jobs": 0}, "jobs is 0"),
    ],
)
def test_impossible_options_are_named(options, message):
    with pytest.raises(OptionError, match=message):
        scored(**options)


def test_test_images_of_one_class_or_another_size_are_refused():
    with pytest.raises(DataError, match="test images have 1 class"):
        scored(LabelledRows(features=rows(1).features, labels=np.zeros(40, dtype=np.int64)))
    with pytest.raises(DataError, match="test rows have 60 features; expected 64, those of images of 8 x 8 x 1"):
        scored(LabelledRows(features=rows(1).features[:, 4:], labels=rows(1).labels))


def test_a_device_that_is_not_there_is_refused_with_those_that_are(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(OptionError, match=r"device 'cuda' is not available here; choose one of 'auto', 'cpu'"):
        scored(training=Training(epochs=1, device="cuda"))


def test_options_are_the_papers_unless_told():
    assert (NetworkOptions().repeats, NetworkOptions().training.passes) == (3, 300)
    assert NETWORKS == ("ConvNet", "LeNet", "AlexNet", "VGG11", "ResNet18", "MLP")


@pytest.mark.parametrize("name", NETWORKS)
def test_each_name_builds_its_own_network(name):
    import torch

    with torch.device("meta"):
        network = build_network(name.lower(), ImageShape(height=28, width=28), 10, seed=0)
    counts = {"ConvNet": 317_706, "LeNet": 61_706, "AlexNet": 1_865_802, "VGG11": 9_229_962, "ResNet18": 11_172_810}
    assert sum(part.numel() for part in network.parameters()) == {**counts, "MLP": 118_282}[name]
