from dataclasses import replace

import numpy as np
import pytest
import torch

from noisegate.records import Images
from noisegate.schema import Boolean, Categorical, Continuous, EncodedTable, Schema, pixel_schema
from noisegate_papers.models.record_sets import (
    WeightedReference,
    effective_size,
    records_from,
    systematic_sample,
    tensors_of,
    weight_summary,
)

SCHEMA = Schema(
    (
        Continuous(name="x", lower=0.0, upper=1.0, missing=True),
        Categorical(name="job", levels=("a", "b", "c")),
        Boolean(name="ill"),
    ),
    label="ill",
)
RECORDS = EncodedTable(
    np.array([[0.1], [0.2], [np.nan], [0.4]]), np.array([[0, 0], [1, 1], [2, 0], [0, 1]], dtype=np.int32)
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def model(weights):
    return WeightedReference(records=RECORDS, weights=np.array(weights, dtype=float), label=SCHEMA.layout.label)


def drawn(found):
    """Returns how often each pair of x and label was drawn."""
    x = np.nan_to_num(found.numeric[:, 0], nan=0.3)
    return {(round(float(a), 1), int(b)): int(n) for (a, b), n in _counted(zip(x, found.codes[:, 1], strict=True))}


def _counted(pairs):
    pairs = list(pairs)
    return [(pair, pairs.count(pair)) for pair in dict.fromkeys(pairs)]


def test_each_record_comes_as_often_as_its_weight_says():
    found = drawn(model([[1.0, 0.0, 5.0, 2.0]]).draw(80, seeded()))
    assert found == {(0.1, 0): 10, (0.3, 0): 50, (0.4, 1): 20}
    # Rounded up or down where it is no whole number, and in another order and other places for another seed.
    counts = [drawn(model([[1.0, 0.0, 5.0, 2.0]]).draw(3, seeded(seed))) for seed in range(400)]
    assert {number for count in counts for pair, number in count.items() if pair == (0.3, 0)} == {1, 2}
    mean = np.mean([count.get((0.1, 0), 0) for count in counts])
    # A probability of 3/8 in 400 draws: off by 0.15 less than once in 1e9 runs.
    assert mean == pytest.approx(3 / 8, abs=0.15)


def test_a_record_is_drawn_with_every_label_that_has_weights():
    joint = model([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 2.0, 0.0]])
    assert drawn(joint.draw(8, seeded())) == {(0.1, 0): 2, (0.4, 0): 2, (0.3, 1): 4}
    region = SCHEMA.region({"ill": True})
    assert joint.probability(region) == 0.5
    given = joint.given(region)
    assert len(given.records) == 1
    assert drawn(given.draw(5, seeded())) == {(0.3, 1): 5}
    # The labels that the public records came with play no part.
    assert model([[1.0, 0.0, 5.0, 2.0]]).probability(region) == 0.25


def test_a_region_of_other_columns():
    plain = model([[1.0, 3.0, 5.0, 2.0]])
    region = SCHEMA.region({"job": "a", "x": (0.3, None)})
    assert plain.probability(region) == pytest.approx(2 / 11)
    assert drawn(plain.given(region).draw(3, seeded())) == {(0.4, 1): 3}


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
    # Of the references, whatever the labels that they are drawn with.
    assert weight_summary(np.array([[1.0, 2.0], [2.0, 1.0]])) == {"effective": pytest.approx(2), "largest_share": 0.5}


def saved(weights):
    made = model(weights)
    return made, made.tensors(), made.to_json()


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
    _, tensors, description = saved([[1.0, 0.0, 5.0, 2.0]])
    with pytest.raises(ValueError, match=message):
        WeightedReference.from_saved(SCHEMA, tensors | change, description)
    with pytest.raises(ValueError, match="in place of 5"):
        WeightedReference.from_saved(SCHEMA, tensors, description | {"records": 5})
    bound = replace(SCHEMA, columns=(Continuous(name="x", lower=0.0, upper=1.0), *SCHEMA.columns[1:]))
    with pytest.raises(ValueError, match="missing"):
        WeightedReference.from_saved(bound, tensors, description)


def test_images_are_kept_as_bytes_and_come_back_bit_for_bit():
    schema = pixel_schema(2, 128)
    images = Images(np.arange(256, dtype=np.uint8).reshape(1, 2, 128, 1))
    kept = tensors_of(images)
    assert (kept["numeric"].dtype, kept["numeric"].shape, kept["codes"].shape) == (np.uint8, (1, 256), (1, 0))
    again = records_from(schema, kept)
    assert again.numeric.tobytes() == (np.arange(256)[None] / np.float64(255)).tobytes()
    with pytest.raises(ValueError, match="types float64"):
        records_from(schema, kept | {"numeric": again.numeric})
