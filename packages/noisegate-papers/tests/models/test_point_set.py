from collections import Counter

import numpy as np
import pytest
import torch

from noisegate.models.record_model import ConditionalModel
from noisegate.schema import Categorical, Continuous, EncodedTable, Schema
from noisegate_papers.models.record_sets import PointSet

SCHEMA = Schema(
    (
        Continuous(name="u", lower=0.0, upper=10.0),
        Continuous(name="v", lower=0.0, upper=1.0, missing=True),
        Categorical(name="y", levels=("a", "b", "c")),
    ),
    label="y",
)
EACH, SIZE = 5, 15


def point_set(labels=None):
    labels = np.repeat(np.arange(3), EACH) if labels is None else np.asarray(labels)
    numbers = np.stack([np.arange(len(labels)) / len(labels), np.full(len(labels), np.nan)], axis=1)
    return PointSet(records=EncodedTable(numbers, labels.astype(np.int32)[:, None]), label=0)


def drawn(rows, seed=0, **options):
    return point_set(**options).draw(rows, torch.Generator().manual_seed(seed))


def places(records, size=SIZE):
    return np.rint(records.numeric[:, 0] * size).astype(int)


def test_as_many_as_there_are_gives_each_once_in_random_order():
    found = [places(drawn(SIZE, seed)) for seed in range(2)]
    assert [sorted(each) for each in found] == [list(range(SIZE))] * 2
    assert list(found[0]) != list(found[1])
    assert list(found[0]) != list(range(SIZE))


@pytest.mark.parametrize("rows", [0, 1, 4, 14, 16, 37, 45])
def test_other_numbers_are_spread_evenly_over_the_set_and_over_the_labels(rows):
    records = drawn(rows)
    assert len(records) == rows
    counts = np.bincount(places(records), minlength=SIZE)
    assert set(counts) <= {rows // SIZE, rows // SIZE + 1}
    labels = np.bincount(records.codes[:, 0], minlength=3)
    assert labels.max() - labels.min() <= 1


def test_labels_of_other_sizes_keep_their_shares():
    labels = np.bincount(drawn(9, labels=[0] * 12 + [1] * 4 + [2] * 2).codes[:, 0], minlength=3)
    assert np.abs(labels - np.array([6, 2, 1])).max() <= 1


def test_each_record_alone_is_as_likely_as_any_other():
    """2,000 draws of one record; the chi-square of 14 degrees of freedom exceeds 42 once in 10,000."""
    model, random = point_set(), torch.Generator().manual_seed(0)
    counts = Counter(int(places(model.draw(1, random))[0]) for _ in range(2000))
    expected = 2000 / SIZE
    assert sum((counts[place] - expected) ** 2 / expected for place in range(SIZE)) < 42


def test_a_condition_leaves_the_records_that_meet_it():
    model, region = point_set(), SCHEMA.region({"y": "b"})
    assert isinstance(model, ConditionalModel)
    assert model.probability(region) == pytest.approx(1 / 3)
    assert sorted(places(model.given(region).draw(EACH, torch.Generator()))) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("numeric", lambda value: value[:, :1], "do not fit the schema"),
        ("numeric", lambda value: value[:3], "do not fit the schema"),
        ("numeric", lambda value: value + 2.0, "outside of the bounds"),
        ("numeric", lambda value: value[:, ::-1].copy(), "missing where the schema allows none"),
        ("codes", lambda value: value + 1, "no level of its column"),
        ("codes", lambda value: value - 1, "no level of its column"),
        ("codes", lambda value: value.astype(np.int64), "int32"),
    ],
)
def test_a_broken_set_is_refused(name, change, match):
    kept = point_set()
    with pytest.raises(ValueError, match=match):
        PointSet.from_saved(SCHEMA, kept.tensors() | {name: change(kept.tensors()[name])}, kept.to_json())
