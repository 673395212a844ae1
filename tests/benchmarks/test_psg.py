"""What the tables of PSG are made with: the paper's settings, and its figures beside ours."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from noisegate import PrivateSetGeneration
from noisegate.methods.dp_sgd import DPSGD
from noisegate.schema import pixel_schema

ROOT = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def sets():
    sys.path.insert(0, str(ROOT))
    try:
        from psg import sets

        yield sets
    finally:
        sys.path.remove(str(ROOT))


@pytest.fixture
def continual(sets):
    from psg import figure_3

    return figure_3


def test_the_papers_settings_are_settings(sets):
    method = PrivateSetGeneration(image=(28, 28, 1), **sets.PAPER)
    assert PrivateSetGeneration.from_json(method.to_json()) == method


@pytest.mark.parametrize(
    ("each", "epsilon", "prior", "steps"),
    [
        (1, 10, False, 10_000),
        (10, 10, False, 100_000),
        (50, 10, False, 500_000),
        (20, 1, False, 40_000),
        (20, 10, True, 20_000),
    ],
)
def test_the_papers_schedule_has_its_rounds(sets, each, epsilon, prior, steps):
    method = sets.method_of("paper", samples_per_class=each, epsilon=epsilon, prior=prior, steps=None)
    assert (method.steps, method.width, method.samples_per_class) == (steps, 128, each)
    assert method.learning_rate == (0.01 if prior else 0.038)
    assert method.prior is prior


def test_the_small_schedule_is_that_of_the_method_but_for_its_start(sets):
    own = PrivateSetGeneration(image=(28, 28, 1), start="gaussians", learning_rate=0.1, ema_decay=0.98)
    assert sets.method_of("laptop", samples_per_class=10, epsilon=10.0) == own
    prior = PrivateSetGeneration(image=(28, 28, 1), prior=True, ema_decay=0.98)
    assert sets.method_of("laptop", samples_per_class=10, epsilon=10.0, prior=True) == prior


def test_published_figures_are_found_by_table_data_set_and_network(sets):
    assert sets.published("1", "mnist", method="psg", epsilon=10.0, samples_per_class=10) == 0.949
    assert sets.published("2", "fashion-mnist", "AlexNet", samples_per_class=20) == 0.591
    assert sets.published("3", "mnist", samples_per_class=1, prior=True) == 0.882
    assert sets.published("4", "mnist", samples_per_class=50) == 0.94
    assert sets.published("4", "mnist", samples_per_class=30) is None


def test_a_party_holds_its_classes_and_no_other(continual, sets, monkeypatch):
    digits = np.arange(40) % 10
    schema = pixel_schema(28, 28, labels=range(10))
    columns = [pa.array(np.full(40, digits[0]))] * 784
    table = pa.table([*columns, pa.array(digits)], names=list(schema.names))
    monkeypatch.setattr(sets, "_loaded", lambda name, folder: sets.Loaded(train=table, test=table, schema=schema))
    bench = sets.Bench(data_set="mnist", data=Path(), out=Path())
    held = [continual.party_of(bench, party) for party in continual.PARTIES]
    for (records, own), party in zip(held, continual.PARTIES, strict=True):
        assert set(records[schema.label].to_pylist()) == set(party)
        assert own.layout.coded[own.layout.label].levels == tuple(sorted(party))
    assert sum(len(records) for records, _ in held) == 40
    # What a stage is scored by: the mean over parties, not over images.
    hits = np.isin(digits, (5, 6)) | (digits == 1)
    assert continual._mean_of_parties(hits, digits, 2) == pytest.approx((1 + 0.5) / 2)


def test_scores_that_are_there_are_not_made_again(sets, tmp_path):
    bench = sets.Bench(data_set="mnist", data=tmp_path, out=tmp_path, repeats=2, epochs=7)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "LeNet-2-7.json").write_text(json.dumps([0.5, 0.75]))
    assert bench.accuracies(tmp_path / "set", None, "LeNet") == [0.5, 0.75]


@pytest.mark.slow
def test_five_parties_teach_a_network_in_turn(continual, sets, monkeypatch, tmp_path):
    """From the command line to the page, on images that tell nothing; a second run makes nothing again."""
    random, schema = np.random.default_rng(0), pixel_schema(28, 28, labels=range(10))
    columns = [*(pa.array(column) for column in random.integers(0, 256, (784, 200))), pa.array(np.arange(200) % 10)]
    table = pa.table(columns, names=list(schema.names))
    monkeypatch.setattr(sets, "_loaded", lambda name, folder: sets.Loaded(train=table, test=table, schema=schema))
    asked = ["figure_3.py", "--data", ".", "--out", str(tmp_path), "--steps", "2", "--width", "2", "--epsilon", "100"]
    asked += ["--epochs", "1", "--repeats", "1", "--methods", "psg", "dp-sgd", "--json", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", [*asked, "--plot", str(tmp_path / "curves.png")])
    assert continual.main() == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert [len(curve["stages"]) for curve in found["curves"]] == [5, 5]
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    last = json.loads(next(tmp_path.glob("mnist-dp-sgd-5-*/model/certificate.json")).read_text())
    before = json.loads(next(tmp_path.glob("mnist-dp-sgd-4-*/model/model.json")).read_text())
    assert last["public"]["start_certificate"] == before["certificate"]
    monkeypatch.setattr(sets.PrivateSetGeneration, "query", None)
    monkeypatch.setattr(DPSGD, "query", None)
    assert continual.main() == 0
    assert json.loads((tmp_path / "found.json").read_text()) == found
