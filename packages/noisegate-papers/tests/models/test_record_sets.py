from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.shared.columns import boolean, categorical, continuous

from noisegate.models.record_model import ConditionalModel
from noisegate.records import Images
from noisegate.schema import EncodedTable, Schema, pixel_schema
from noisegate_papers.models.record_sets import (
    PointSet,
    WeightedReference,
    effective_size,
    records_from,
    systematic_sample,
    tensors_of,
    weight_summary,
)

SCHEMA = Schema(
    (
        continuous("u", 0.0, 10.0),
        continuous("v", missing=True),
        categorical("y", "abc"),
    ),
    label="y",
)
EACH, SIZE = 5, 15


def point_set(labels=None):
    labels = np.repeat(np.arange(3), EACH) if labels is None else np.asarray(labels)
    numbers = np.stack(
        [np.arange(len(labels)) / len(labels), np.full(len(labels), np.nan)], axis=1
    )
    return PointSet(
        records=EncodedTable(numbers, labels.astype(np.int32)[:, None]), label=0
    )


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
    labels = np.bincount(
        drawn(9, labels=[0] * 12 + [1] * 4 + [2] * 2).codes[:, 0], minlength=3
    )
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
    assert sorted(places(model.given(region).draw(EACH, torch.Generator()))) == [
        5,
        6,
        7,
        8,
        9,
    ]


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("numeric", lambda value: value[:, :1], "do not fit the schema"),
        ("numeric", lambda value: value[:3], "do not fit the schema"),
        ("numeric", lambda value: value + 2.0, "outside of the bounds"),
        (
            "numeric",
            lambda value: value[:, ::-1].copy(),
            "missing where the schema allows none",
        ),
        ("codes", lambda value: value + 1, "no level of its column"),
        ("codes", lambda value: value - 1, "no level of its column"),
        ("codes", lambda value: value.astype(np.int64), "int32"),
    ],
)
def test_a_broken_set_is_refused(name, change, match):
    kept = point_set()
    with pytest.raises(ValueError, match=match):
        PointSet.from_saved(
            SCHEMA,
            kept.tensors() | {name: change(kept.tensors()[name])},
            kept.to_json(),
        )


JOBS = Schema(
    (continuous("x", missing=True), categorical("job", "abc"), boolean("ill")),
    label="ill",
)
RECORDS = EncodedTable(
    np.array([[0.1], [0.2], [np.nan], [0.4]]),
    np.array([[0, 0], [1, 1], [2, 0], [0, 1]], dtype=np.int32),
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def model(weights):
    return WeightedReference(
        records=RECORDS, weights=np.array(weights, dtype=float), label=JOBS.layout.label
    )


def counted(found):
    """Returns how often each pair of x and label was counted."""
    x = np.nan_to_num(found.numeric[:, 0], nan=0.3).round(1)
    return Counter(zip(x.tolist(), found.codes[:, 1].tolist(), strict=True))


def test_each_record_comes_as_often_as_its_weight_says():
    found = counted(model([[1.0, 0.0, 5.0, 2.0]]).draw(80, seeded()))
    assert found == {(0.1, 0): 10, (0.3, 0): 50, (0.4, 1): 20}
    # Rounded up or down where it is no whole number, and in another order and other places for another seed.
    counts = [
        counted(model([[1.0, 0.0, 5.0, 2.0]]).draw(3, seeded(seed)))
        for seed in range(400)
    ]
    assert {
        number for count in counts for pair, number in count.items() if pair == (0.3, 0)
    } == {1, 2}
    mean = np.mean([count.get((0.1, 0), 0) for count in counts])
    # A probability of 3/8 in 400 draws: off by 0.15 less than once in 1e9 runs.
    assert mean == pytest.approx(3 / 8, abs=0.15)


def test_a_record_is_drawn_with_every_label_that_has_weights():
    joint = model([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 2.0, 0.0]])
    assert counted(joint.draw(8, seeded())) == {(0.1, 0): 2, (0.4, 0): 2, (0.3, 1): 4}
    region = JOBS.region({"ill": True})
    assert joint.probability(region) == 0.5
    given = joint.given(region)
    assert len(given.records) == 1
    assert counted(given.draw(5, seeded())) == {(0.3, 1): 5}
    # The labels that the public records came with play no part.
    assert model([[1.0, 0.0, 5.0, 2.0]]).probability(region) == 0.25


def test_a_region_of_other_columns():
    plain = model([[1.0, 3.0, 5.0, 2.0]])
    region = JOBS.region({"job": "a", "x": (0.3, None)})
    assert plain.probability(region) == pytest.approx(2 / 11)
    assert counted(plain.given(region).draw(3, seeded())) == {(0.4, 1): 3}


def test_order_follows_from_chance_and_no_place_of_weight_zero_is_drawn():
    weights = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    places = systematic_sample(weights, 1000, seeded())
    assert np.bincount(places, minlength=5).tolist() == [0, 500, 0, 500, 0]
    assert 100 < np.abs(np.diff(places)).astype(bool).sum() < 900
    tiny = np.full(7, 1e-300)
    assert np.bincount(systematic_sample(tiny, 7, seeded())).tolist() == [1] * 7
    assert systematic_sample(weights, 0, seeded()).shape == (0,)


def test_the_effective_sample_size_of_weights_with_known_answers():
    assert effective_size(np.full(50, 0.3)) == pytest.approx(50)
    assert effective_size(np.array([0.0, 7.0, 0.0])) == pytest.approx(1)
    assert effective_size(np.array([3.0, 1.0])) == pytest.approx(1.6)
    # Of the references, whatever the labels that they are counted with.
    assert weight_summary(np.array([[1.0, 2.0], [2.0, 1.0]])) == {
        "effective": pytest.approx(2),
        "largest_share": 0.5,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.ones((1, 3))}, "weights of shape"),
        ({"weights": np.ones((3, 4))}, "weights of shape"),
        ({"weights": np.zeros((1, 4))}, "one above"),
        ({"weights": -np.ones((1, 4))}, "none below 0"),
        ({"weights": np.full((1, 4), np.nan)}, "finite"),
        ({"numeric": RECORDS.numeric + 1}, "bounds"),
        ({"numeric": RECORDS.numeric[:, :0]}, "do not fit the schema"),
        ({"numeric": RECORDS.numeric.astype(np.float32)}, "types"),
        ({"codes": RECORDS.codes + 1}, "no level"),
        ({"codes": RECORDS.codes[:3]}, "do not fit the schema"),
    ],
)
def test_a_broken_model_is_refused(change, message):
    made = model([[1.0, 0.0, 5.0, 2.0]])
    tensors, description = made.tensors(), made.to_json()
    with pytest.raises(ValueError, match=message):
        WeightedReference.from_saved(JOBS, tensors | change, description)
    with pytest.raises(ValueError, match="in place of 5"):
        WeightedReference.from_saved(JOBS, tensors, description | {"records": 5})
    bound = replace(JOBS, columns=(continuous("x"), *JOBS.columns[1:]))
    with pytest.raises(ValueError, match="missing"):
        WeightedReference.from_saved(bound, tensors, description)


def test_images_are_kept_as_bytes_and_come_back_bit_for_bit():
    schema = pixel_schema(2, 128)
    images = Images(np.arange(256, dtype=np.uint8).reshape(1, 2, 128, 1))
    kept = tensors_of(images)
    assert (kept["numeric"].dtype, kept["numeric"].shape, kept["codes"].shape) == (
        np.uint8,
        (1, 256),
        (1, 0),
    )
    again = records_from(schema, kept)
    assert again.numeric.tobytes() == (np.arange(256)[None] / np.float64(255)).tobytes()
    with pytest.raises(ValueError, match="types float64"):
        records_from(schema, kept | {"numeric": again.numeric})
