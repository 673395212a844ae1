"""Real training and test tables against each other: the figures that every synthetic table is measured by."""

import pytest
from pyarrow import csv

from noisegate.schema import Categorical, Integer, Schema
from noisegate_evaluate import downstream_scores, marginal_distances

BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_356),
    "hours-per-week": (1, 99),
}


@pytest.fixture(scope="module")
def adult(data_dir):
    train, test = (
        csv.read_csv(data_dir / "adult" / f"{part}.csv") for part in ("train", "test")
    )
    columns = []
    for name in train.column_names:
        if name in BOUNDS:
            columns.append(
                Integer(name=name, lower=BOUNDS[name][0], upper=BOUNDS[name][1])
            )
        else:
            levels = sorted({*train[name].to_pylist(), *test[name].to_pylist()} - {"?"})
            columns.append(Categorical(name=name, levels=tuple(levels), missing=True))
    return train, test, Schema(columns=tuple(columns), label="income")


@pytest.mark.data
def test_real_marginals_match_the_known_sampling_distance(adult):
    train, test, schema = adult
    report = marginal_distances(test, train, schema)
    assert report.order(1).mean == pytest.approx(0.008, abs=0.001)
    assert report.order(2).mean == pytest.approx(0.021, abs=0.002)
    assert report.order(3).mean == pytest.approx(0.045, abs=0.004)
    assert (report.order(3).used, report.order(3).total) == (120, 455)


@pytest.mark.data
def test_real_training_data_scores_as_is_known(adult):
    train, test, schema = adult
    report = downstream_scores(train, test, schema)
    assert report.mean.roc_auc == pytest.approx(0.911, abs=0.003)
    assert report.mean.average_precision == pytest.approx(0.782, abs=0.008)
    assert report.mean.f1 == pytest.approx(0.68, abs=0.01)
    assert report.averaging == "positive class '>50K'"
    assert report.notes == ()
