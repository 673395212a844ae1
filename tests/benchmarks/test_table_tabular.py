"""The tabular benchmark of the papers: what it prints, what it spends, and what the papers' noise costs."""

import io
import json
import math
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from noisegate import Adjacency
from noisegate.evaluation import PrintedScores, Scores, Suite, UtilityReport, twelve
from noisegate.evaluation.utility.runner import Outcome
from noisegate.evaluation.utility.suites import Estimator
from noisegate.methods.registry import make_method
from noisegate.privacy import accounting

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_merf"))

import table_tabular
from paper_budget import paper_cost, paper_split, renyi_sigma
from papers.catalogue import TABLES, published
from tabular_page import (
    EXPECTED,
    SOURCES,
    Asked,
    Runs,
    content,
    hp_paper_cost,
    papers_classifiers,
    papers_figures,
    papers_rate,
    print_page,
)


def report(score: float) -> UtilityReport:
    scores = Scores(roc_auc=score, average_precision=score / 2, f1=score / 3, accuracy=score / 4)
    suite = Suite(name="two", version="0", recipes=tuple(Estimator(name=name, maker="none") for name in "ab"))
    printed = PrintedScores(roc_auc=score / 5, average_precision=score / 6, weighted_f1=score / 7)
    outcomes = {
        name: (Outcome(scores=scores, notes=notes, printed=printed),) for name, notes in (("a", ("odd",)), ("b", ()))
    }
    return UtilityReport(suite=suite, seed=0, outcomes=outcomes, label="y", averaging="positive class 1")


RUNS = Runs(synthetic=(report(0.5), report(0.7)), real=report(0.9), records=(80, 80))


def asked(epsilon: float = 1.0) -> Asked:
    return Asked(dataset="adult", method="auto", settings={}, epsilon=epsilon, delta=1e-5, adjacency="add-remove")


def page(runs: Runs, epsilon: float = 1.0, **more: bool) -> str:
    stream = io.StringIO()
    print_page(Console(file=stream, width=160), asked(epsilon), runs, **more)
    return stream.getvalue()


def test_the_page_has_mean_and_deviation_over_the_seeds_and_the_papers_figures() -> None:
    text = page(RUNS)
    for part in (
        "0.600 ± 0.141",
        "0.300 ± 0.071",
        "0.900",
        "0.650 ± 0.02",
        "0.688",
        "Hard predictions",
        "0.120 ± 0.028",
        "0.180",
        "seed 1: a: odd",
    ):
        assert part in text
    assert "0.688" not in page(RUNS, epsilon=2.0)  # the papers have figures at ε = 1 only


def test_test_records_of_the_largest_class_are_thinned_at_the_papers_rate() -> None:
    test = pa.table({"y": ["no"] * 4000 + ["yes"] * 1000, "row": range(5000)})
    kept = table_tabular.thinned(test, "adult", "y", 0)
    counts = [kept["y"].to_pylist().count(value) for value in ("no", "yes")]
    assert counts[1] == 1000
    assert abs(counts[0] - 1600) < 5 * math.sqrt(4000 * 0.4 * 0.6)
    assert kept.equals(table_tabular.thinned(test, "adult", "y", 0))
    assert not kept.equals(table_tabular.thinned(test, "adult", "y", 1))
    assert table_tabular.thinned(test, "epileptic", "y", 0).equals(test)
    assert all(0 < papers_rate(name) <= 1 for name in TABLES)


def test_one_seed_has_no_deviation() -> None:
    text = page(Runs(synthetic=(report(0.5),), real=None, records=(80,)))
    assert "0.500 " in text
    assert "0.500 ±" not in text


def test_the_report_is_json_with_every_classifier() -> None:
    found = json.loads(json.dumps(content(asked(), RUNS)))
    assert found["mean"]["roc_auc"] == pytest.approx(0.6)
    assert found["seeds"][1]["models"]["a"]["roc_auc"] == 0.7
    assert found["papers_at_epsilon_1"]["roc"]["dp-hp"] == 0.688


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_papers_figures_and_a_tolerance_for_their_spread(name: str) -> None:
    figures = papers_figures(name)
    assert list(figures) in (["roc", "prc"], ["f1"])
    for values in figures.values():
        assert set(values) == {*SOURCES, "tolerance"}
        spread = abs(values["dp-merf"] - values["dp-merf-again"])
        assert values["tolerance"] == pytest.approx(max(0.02, spread))
    sources = tomllib.loads(EXPECTED.read_text())["tabular"]["sources"]
    assert set(sources) == set(SOURCES)


def test_each_classifier_has_its_row_and_dp_merfs_figure_where_there_is_one() -> None:
    assert "Each classifier" not in page(RUNS)
    (row,) = (line for line in page(RUNS, each=True).splitlines() if line.startswith("│ b "))
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["b", "0.120", "", "0.100", ""]
    names = {recipe.name for recipe in twelve("tables").recipes}
    averages = {"credit": {"roc": 0.772, "prc": 0.638}, "intrusion": {"f1": 0.850}}  # the tables' last rows
    for dataset, means in averages.items():
        figures = papers_classifiers(dataset)
        assert set(figures) == names
        for kind, mean in means.items():
            assert np.mean([one[kind] for one in figures.values()]) == pytest.approx(mean, abs=0.01)
    assert papers_classifiers("adult") == {}


def test_the_renyi_calibration_is_the_least_over_the_orders() -> None:
    for epsilon, releases in ((1.0, 1), (1.0, 2), (0.2, 1)):
        sigma = renyi_sigma(epsilon, 1e-5, releases)
        orders = 1 + np.geomspace(1e-3, 1e4, 200_001)
        costs = releases * orders / (2 * sigma**2) - math.log(1e-5) / (orders - 1)
        assert costs.min() == pytest.approx(epsilon, rel=1e-6)
    # The papers' code has 5 and 25 for images, rounded up.
    assert renyi_sigma(1.0, 1e-5, 1) == pytest.approx(4.90, abs=0.01)
    assert renyi_sigma(0.2, 1e-5, 1) == pytest.approx(24.1, abs=0.01)


def test_the_papers_noise_costs_less_than_it_claims() -> None:
    cost = paper_cost(1.0, 1e-5)
    assert cost.add_remove < cost.together < cost.composed < cost.claimed
    # A search over two classes and unit vectors: fractions and embedding, each divided by its noise.
    random = np.random.default_rng(0)
    first, second = random.standard_normal((2, 10_000, 2))
    first, second = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (first, second))
    same_label = np.sum((first - second) ** 2, axis=1) / 2**2
    other_label = 1 + np.full(len(first), 2.0) / 2**2
    worst = max(same_label.max(), other_label.max())
    assert accounting.gaussian_epsilon(math.sqrt(worst) / cost.sigma, 1e-5) == pytest.approx(cost.together)
    removed = 1 / 2 + 1 / 2**2  # the record's count over noise √2, its vector over noise 2
    assert accounting.gaussian_epsilon(math.sqrt(removed) / cost.sigma, 1e-5) == pytest.approx(cost.add_remove)
    assert 0.5 < hp_paper_cost(1.0, 1e-5) < 1.0


class Stub:
    """A method that gives empty records and remembers what was asked."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.gates: list[object] = []
        self.even: list[str | None] = []

    def fit(self, gate, device):
        self.gates.append(gate)
        return self

    def sample(self, rows, *, seed, even):
        self.rows.append(rows)
        self.even.append(even)
        return pa.table({"seed": [seed]})


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["table_tabular.py", *arguments])
    return table_tabular.main()


def adult_file(folder: Path) -> None:
    line = "30, Private, 77516, Bachelors, 13, Divorced, Sales, Wife, White, Male, 0, 0, 40, United-States, <=50K\n"
    (folder / "adult.data").write_text(line * 10)


def test_it_samples_the_published_number_and_spends_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adult_file(tmp_path)
    stub, settings = Stub(), []
    monkeypatch.setattr(table_tabular, "make_method", lambda name, given: settings.append((name, given)) or stub)
    monkeypatch.setattr(table_tabular, "downstream_scores", lambda *tables, **options: report(0.5))
    arguments = ["--dataset", "adult", "--data", str(tmp_path), "--seeds", "2", "--epsilon", "0.5", "--method", "dp-hp"]
    assert run(monkeypatch, *arguments, "--settings", '{"order": 3}', "--json", str(tmp_path / "out.json")) == 0
    # Ten records, of which nine are for training: their number is private and must not show.
    assert stub.rows == [published("adult").train_records] * 2
    assert settings == [("dp-hp", {"order": 3, "seed": seed}) for seed in (0, 1)]
    assert {(gate.budget.epsilon, gate.records) for gate in stub.gates} == {(0.5, published("adult").train_records)}
    assert json.loads((tmp_path / "out.json").read_text())["records"] == [9, 9]
    stub.gates.clear()
    assert run(monkeypatch, *arguments, "--adjacency", "replace-one") == 0
    assert {(gate.budget.adjacency, gate.records) for gate in stub.gates} == {(Adjacency.REPLACE_ONE, 9)}
    assert run(monkeypatch, *arguments, "--even") == 0
    assert stub.even == [None] * 4 + ["income"] * 2


def test_a_missing_file_ends_it_with_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--dataset", "isolet", "--data", str(tmp_path)) == 2
    assert "isolet1+2+3+4.data" in "".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("wrong", [["--settings", "{"], ["--settings", '{"seed": 1}'], ["--seeds", "0"]])
def test_a_wrong_option_is_refused(
    wrong: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "--dataset", "adult", "--data", "nowhere", *wrong)
    assert wrong[0] in capsys.readouterr().err


def test_the_split_of_dp_hp_costs_less_than_it_claims():
    first, second, epsilon = paper_split(1.0, 1e-5, sum_part=0.8, products=10)
    assert 1 / first**0.5 == pytest.approx(4.77, abs=0.02)  # REFERENCE 2.1: sum 4.77, product 54.2
    assert 1 / second**0.5 == pytest.approx(54.2, abs=0.3)
    assert 0.5 < epsilon < 0.85


@pytest.mark.parametrize(("method", "said"), [("dp-merv", "is not known"), ("dp-llm", "makes no records")])
def test_a_method_that_makes_no_records_is_refused(
    method: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--dataset", "adult", "--data", str(tmp_path), "--method", method) == 2
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("method", ["dp-merf", "dp-hp"])
def test_the_papers_settings_are_settings_and_give_way_to_those_that_are_said(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    presets = tomllib.loads(table_tabular.PRESETS.read_text())[method]
    assert set(presets) == {"all", *TABLES}
    for dataset in TABLES:
        make_method(method, presets["all"] | presets[dataset])  # an OptionError if a value cannot be used
    adult_file(tmp_path)
    stub, settings = Stub(), []
    monkeypatch.setattr(table_tabular, "make_method", lambda name, given: settings.append(given) or stub)
    monkeypatch.setattr(table_tabular, "downstream_scores", lambda *tables, **options: report(0.5))
    said = ["--settings", '{"generator": "mixture"}', "--preset", "paper"]
    run(monkeypatch, "--dataset", "adult", "--data", str(tmp_path), "--method", method, "--seeds", "1", *said)
    (given,) = settings
    assert given == presets["all"] | presets["adult"] | {"generator": "mixture", "seed": 0}


def test_the_paper_has_no_settings_of_other_methods(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "--dataset", "adult", "--data", "nowhere", "--method", "pairwise", "--preset", "paper")
    assert "there are settings of dp-merf and dp-hp, not of pairwise" in capsys.readouterr().err
