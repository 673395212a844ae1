"""The tabular benchmark of the papers: what it prints, what it spends, and what the papers' noise costs."""

import math
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from noisegate.methods.registry import make_method
from noisegate.privacy import accounting

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_merf"))

import table_tabular
from paper_budget import paper_cost, paper_split, renyi_sigma
from papers.catalogue import TABLES
from tabular_page import EXPECTED, SOURCES, hp_paper_cost, papers_figures


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


def test_the_split_of_dp_hp_costs_less_than_it_claims():
    first, second, epsilon = paper_split(1.0, 1e-5, sum_part=0.8, products=10)
    assert 1 / first**0.5 == pytest.approx(4.77, abs=0.02)  # REFERENCE 2.1: sum 4.77, product 54.2
    assert 1 / second**0.5 == pytest.approx(54.2, abs=0.3) and 0.5 < epsilon < 0.85


@pytest.mark.parametrize("method", ["dp-merf", "dp-hp"])
def test_the_papers_settings_are_settings(method: str) -> None:
    presets = tomllib.loads(table_tabular.PRESETS.read_text())[method]
    assert set(presets) == {"all", *TABLES}
    for dataset in TABLES:
        make_method(method, presets["all"] | presets[dataset])  # an OptionError if a value cannot be used
