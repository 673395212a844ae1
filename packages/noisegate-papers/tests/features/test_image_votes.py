"""Votes of images: for one candidate of their label, whatever the other images, by features of whole numbers."""

import numpy as np
import pytest
from tests.shared.sums import moves, squared

from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import Grid
from noisegate.records import Images
from noisegate.schema import pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate.testing import check_feature_map, made_up
from noisegate_papers.features.thumbnails import BlurredPixels
from noisegate_papers.features.votes import LARGEST_IMAGE, SCALE, ImageVotes, whole_numbers

SCHEMA = pixel_schema(8, 8, labels=("across", "down", "both"))
SHAPE = ImageShape(height=8, width=8)
GRID = Grid(norm=1.0, nonnegative=True)


class Signed:
    """Rows of pixels of length 1, of both signs."""

    dim, norm, nonnegative = 64, 1.0, False

    def __call__(self, records):
        rows = records.numeric - 0.5
        return (rows / np.sqrt(np.square(rows).sum(axis=1, keepdims=True))).astype(np.float32)


def images(rows=300, seed=0):
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (rows, 8, 8, 1), dtype=np.uint8)
    return Images(pixels, random.integers(0, 3, rows).astype(np.int32))


def image_votes(encoding=None, rows=60, **changes):
    encoding, public = encoding or Signed(), images(rows, seed=1)
    given = {"candidates": encoding(public), "labels": public.labels, "label": 0}
    return ImageVotes(encoding=encoding, **{**given, **changes})


@pytest.mark.parametrize("shape", [(8, 8, 1), (8, 12, 3), (7, 9, 1)])
def test_blurred_pixels_keep_the_contract_of_feature_maps(shape):
    schema = pixel_schema(*shape, labels=None)
    check_feature_map(
        BlurredPixels(image=ImageShape(**dict(zip(("height", "width", "channels"), shape, strict=True)))), schema.layout
    )


def test_blurred_pixels_are_the_same_alone_and_among_others_and_tell_where_ink_is():
    pixels, records = BlurredPixels(image=SHAPE), images()
    together = pixels(records)
    assert all(pixels(records.rows([row])).tobytes() == together[row].tobytes() for row in range(0, 300, 7))
    one = np.zeros((1, 8, 8, 1), dtype=np.uint8)
    assert not pixels(Images(one)).any()
    one[0, 4:6, 2:4] = 255
    assert pixels(Images(one)).reshape(4, 4).argmax() == 9


@pytest.mark.parametrize("encoding", [Signed(), BlurredPixels(image=SHAPE)], ids=["signed", "pixels"])
def test_image_votes_keep_the_contract_of_feature_maps(encoding):
    check_feature_map(image_votes(encoding), SCHEMA.layout)


def test_whole_numbers_are_no_longer_than_float32_sums_exactly():
    assert 3 * LARGEST_IMAGE <= 2**24
    assert (SCALE * (1 + 2.0**-15)) ** 2 <= LARGEST_IMAGE
    vectors = Signed()(images())
    whole = whole_numbers(vectors)
    assert np.array_equal(whole, np.trunc(whole))
    assert (np.abs(whole) <= np.abs(vectors * np.float32(SCALE))).all()
    assert np.square(whole.astype(np.int64)).sum(axis=1).max() <= LARGEST_IMAGE
    too_long = np.array([[2.0, 0.0], [np.nan, 0.0], [np.inf, 1.0]], dtype=np.float32)
    assert not whole_numbers(too_long).any()


def test_the_nearest_image_is_that_of_whole_numbers_and_the_first_of_equals():
    # Candidates and images that are far from each other have products as negative as there are.
    opposite = Images(255 - images(100, seed=1).pixels, images(100, seed=1).labels)
    records = Images(
        np.concatenate([images().pixels, opposite.pixels]), np.concatenate([images().labels, opposite.labels])
    )
    votes = image_votes(rows=100)
    points = whole_numbers(votes.candidates).astype(np.int64)
    rows = whole_numbers(Signed()(records)).astype(np.int64)
    distances = np.square(rows[:, None] - points[None]).sum(axis=2)
    distances[records.codes[:, :1] != votes.labels] = np.iinfo(np.int64).max
    assert np.array_equal(votes.nearest(records), distances.argmin(axis=1))
    twice = image_votes(candidates=np.repeat(votes.candidates[:1], 60, axis=0))
    first = {int(label): int(np.flatnonzero(twice.labels == label)[0]) for label in np.unique(twice.labels)}
    assert twice.nearest(records).tolist() == [first[int(label)] for label in records.labels]


def test_an_image_votes_for_its_label_once_and_moves_the_sum_by_the_bound_and_no_more():
    votes, records = image_votes(), images()
    for row, (removed, replaced) in enumerate(moves(records, votes, GRID, 12)):
        assert np.count_nonzero(removed) == 1
        assert votes.labels[removed.argmax()] == records.labels[row]
        assert squared(removed) <= GRID.bound.sensitivity_squared(Adjacency.ADD_REMOVE)
        assert squared(replaced) <= GRID.bound.sensitivity_squared(Adjacency.REPLACE_ONE)


def test_the_vote_of_an_image_does_not_depend_on_other_images():
    votes, records = image_votes(rows=2000), images(1500)
    together = votes.nearest(records)
    order = np.random.default_rng(1).permutation(len(records))
    assert np.array_equal(votes.nearest(records.rows(order)), together[order])
    assert [int(votes.nearest(records.rows([row]))[0]) for row in range(0, 1500, 41)] == together[::41].tolist()


def test_images_without_labels_vote_among_all():
    votes = image_votes(labels=np.zeros(60, dtype=np.int32), label=None)
    assert len(set(votes.nearest(made_up(pixel_schema(8, 8, labels=None).layout)).tolist())) > 5
