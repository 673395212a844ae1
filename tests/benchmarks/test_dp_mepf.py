"""The benchmark of DP-MEPF: Table 7 as printed, rows beside the paper's and resumed, and what is missing is named."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_mepf"))

import mepf_tables as tables
from mepf_rates import RATES, rates

FOLDER = Path(tables.__file__).parent


def test_learning_rates_are_those_of_table_7():
    assert rates("cifar10", 1, 10)[1:] == (1e-3, 1e-4) and rates("cifar10", 2, 5)[
        1:
    ] == (1e-3, 3e-4)
    assert rates("cifar10", 2, 2)[1:] == (1e-3, 1e-2) and rates("celeba32", 1, 0.5)[
        1:
    ] == (1e-3, 3e-4)
    assert rates("celeba64", 2, 1)[1:] == (3e-4, 1e-3) and rates("mnist", 2, 0.2)[
        1:
    ] == (1e-5, 1e-4)
    for entries in RATES.values():
        assert [entry.least for entry in entries] == sorted(
            (entry.least for entry in entries), reverse=True
        )
        assert entries[-1].least == 0


def test_every_table_has_its_figures_and_its_command():
    for number in tables.TABLES:
        assert (
            list(tables.figures(number)) and (FOLDER / f"table_{number}.py").is_file()
        )
    found = {
        (one.metric, one.moments): (one.mean, one.std)
        for one in tables.figures(10)
        if one.epsilon == 1
    }
    assert found["mlp", 2] == (89.3, 0.6) and found["logistic", 1] == (79.0, 0.6)
    parts = [one for one in tables.figures(2) if one.data == "mnist"]
    assert set(parts) < set(tables.figures(10)) and {
        one.stopping for one in tables.figures(4)
    } == {"private", "none"}
