"""The benchmark of small data: its tables fit their schemas, and its report says what the runs say."""

import sys
from pathlib import Path

import numpy as np
import pytest

from noisegate.data.tables.tables import TableSource
from noisegate.evaluation import marginal_distances
from noisegate.schema import EncodedTable

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "small"))

from small_report import excess, lines, means
from small_scores import roc_auc
from small_tables import SIMULATED


def encoded(table, schema):
    return EncodedTable.concatenate(list(TableSource(table, schema).batches()))


@pytest.mark.parametrize("name", SIMULATED)
def test_a_simulated_table_fits_its_schema_and_has_something_to_learn(name):
    (train, schema), (test, same) = SIMULATED[name](4000, 0), SIMULATED[name](4000, 1)
    assert schema == same
    # Read strictly: a value out of bounds would be refused.
    read = encoded(train, schema)
    assert len(read) == 4000
    assert 0.1 < read.codes[:, schema.layout.label].mean() < 0.9
    assert not train.equals(test) and train.equals(SIMULATED[name](4000, 0)[0])
    assert roc_auc(train, test, schema) > 0.65
    assert marginal_distances(train, test, schema, orders=(1,), bins=20).order(1).mean < 0.05


def row(method, epsilon, seed, distance):
    point = {"table": "clinic", "records": 200, "epsilon": epsilon, "seed": seed, "method": method}
    return point | {"distance_1": distance / 2, "distance_2": distance, "roc_auc": 0.5}


ROWS = [
    row("uniform", 0.0, 0, 0.5),
    *(row("single columns", 1.0, seed, value) for seed, value in enumerate((0.2, 0.4))),
    *(row("default", 1.0, seed, value) for seed, value in enumerate((0.3, 0.4))),
    row("single columns", 0.1, 0, 0.7),
    row("default", 0.1, 0, 0.45),
]


def test_the_report_compares_means_with_the_nearer_of_the_other_two():
    points = means(ROWS)
    assert list(points) == [("clinic", 200, 0.1), ("clinic", 200, 1.0)]
    over = excess(points, "distance_2")
    assert list(over.values()) == pytest.approx([-0.05, 0.05])
    shown = lines(points)
    assert len(shown) == 4
    assert "| clinic | 200 | 1 | 0.250 / 0.500 | 0.150 / 0.300 | 0.175 / 0.350 | 0.500 → 0.500 |" in shown


def test_a_model_that_learned_from_one_class_knows_nothing():
    train, schema = SIMULATED["survey"](300, 0)
    same = train.filter(np.asarray(train["moved"]) == np.asarray(train["moved"])[0])
    assert roc_auc(same, train, schema) == 0.5
