"""Votes: each record is for one candidate, the nearest one, whatever the other records and however it is computed."""

import numpy as np
import pytest
from tests.shared.columns import boolean, categorical, continuous
from tests.shared.sums import moves, squared, sum_of

from noisegate.errors import OptionError
from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS, Grid
from noisegate.queries.binning import NumericBins
from noisegate.records import Images, Rows
from noisegate.schema import Schema, pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate.testing import check_feature_map, made_up
from noisegate_papers.queries.thumbnails import BlurredPixels
from noisegate_papers.queries.votes import (
    LARGEST_IMAGE,
    SCALE,
    ImageVotes,
    NearestVotes,
    lattice,
    whole_numbers,
)

BINS = (
    NumericBins((0.2, 0.5), nullable=True),
    NumericBins(tuple(np.arange(1, 24) / 24)),
)
CODED = (3, 2)
SCHEMA = Schema(
    (
        continuous("x", missing=True),
        continuous("y"),
        categorical("k", "abc"),
        boolean("ill"),
    )
)
LARGEST = 2**23  # twice of it is what float32 counts to
GRID = Grid(norm=1.0, nonnegative=True)


def votes(rows=50, seed=0, **options):
    random = np.random.default_rng(seed)
    candidates = np.stack(
        [random.integers(0, size, rows) for size in (4, 24, 3, 2)], axis=1
    ).astype(np.int32)
    return NearestVotes(
        bins=BINS, points=lattice(BINS, CODED, **options), candidates=candidates
    )


def records(rows=400, seed=0):
    return made_up(SCHEMA.layout, rows, seed)


def task_of(features, **changes):
    return SumTask(
        **{
            "feature_map": features,
            "grid": GRID,
            "columns": 1,
            "label": None,
            **changes,
        }
    )


def test_it_keeps_the_contract_of_feature_maps():
    check_feature_map(votes(), SCHEMA.layout)


def test_the_nearest_candidate_is_that_of_whole_numbers_and_the_first_of_equals():
    features, people = votes(300), records()
    cells = np.stack(
        [
            *(bins.codes(people.numeric[:, place]) for place, bins in enumerate(BINS)),
            *people.codes.T,
        ],
        axis=1,
    )

    def points(rows):
        return np.concatenate(
            [one[rows[:, column]] for column, one in enumerate(features.points)], axis=1
        )

    apart = points(cells)[:, None] - points(features.candidates)[None]
    distances = np.square(apart).sum(axis=2)
    assert distances.dtype == np.int64 and np.array_equal(
        features.nearest(people), distances.argmin(axis=1)
    )
    # Candidates that are the same are there, so that ties are.
    assert len(np.unique(features.candidates, axis=0)) < len(features.candidates)


def test_every_distance_is_exact_however_many_columns_there_are():
    wide = 60
    bins = tuple(NumericBins(tuple(np.arange(1, 16) / 16)) for _ in range(wide))
    points = lattice(bins, (2,) * wide)
    assert sum(int(np.square(one).sum(axis=1).max()) for one in points) <= LARGEST
    random = np.random.default_rng(3)
    candidates = np.concatenate(
        [random.integers(0, 16, (40, wide)), random.integers(0, 2, (40, wide))], axis=1
    )
    features = NearestVotes(
        bins=bins, points=points, candidates=candidates.astype(np.int32)
    )
    people = Rows(
        random.random((300, wide)), random.integers(0, 2, (300, wide)).astype(np.int32)
    )
    cells = np.concatenate([(people.numeric * 16).astype(int), people.codes], axis=1)
    rows = [
        np.concatenate([one[each[:, c]] for c, one in enumerate(points)], axis=1)
        for each in (cells, candidates)
    ]
    distances = np.square(rows[0][:, None] - rows[1][None]).sum(axis=2)
    assert np.array_equal(features.nearest(people), distances.argmin(axis=1))


def test_a_record_votes_once_and_moves_the_sum_by_the_bound_and_no_more():
    features, people = votes(), records()
    total = sum_of(people, features, GRID)
    weight = int(GRID.quantise(np.ones((1, 1), dtype=np.float32))[0, 0])
    assert 0.98 * UNITS < weight <= UNITS and total.sum() == weight * len(people)
    assert weight**2 <= GRID.bound.sensitivity_squared(Adjacency.ADD_REMOVE)
    for removed, replaced in moves(people, features, GRID, 20):
        assert (
            sorted(removed.tolist())[-2:] == [0, weight]
            and np.count_nonzero(removed) == 1
        )
        assert squared(replaced) <= GRID.bound.sensitivity_squared(
            Adjacency.REPLACE_ONE
        )


def test_what_is_added_is_what_the_grid_makes_of_the_vectors():
    features, people = votes(), records()
    for grid in (
        GRID,
        Grid(norm=0.3, nonnegative=True),
        Grid(norm=3.0, nonnegative=True),
    ):
        assert (task_of(features, grid=grid).exact_sum is None) == (grid.norm < 1)
        exact = sum_records(people, {"q": task_of(features, grid=grid)}).sums["q"][0]
        assert np.array_equal(
            exact, grid.quantise(features(people)).sum(axis=0, dtype=np.int64)
        )


def test_a_vote_does_not_depend_on_the_other_records_nor_on_their_number():
    features, people = votes(5000), records(2000)
    together = features.nearest(people)
    order = np.random.default_rng(1).permutation(len(people))
    assert np.array_equal(features.nearest(people.rows(order)), together[order])
    alone = [
        int(features.nearest(people.rows([place]))[0]) for place in range(0, 2000, 97)
    ]
    assert alone == together[::97].tolist()


def test_a_centre_is_left_to_the_grid():
    assert votes().exact_sum(Grid(norm=1.0, centre=(0.5,) * 50)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"candidates": np.zeros((3, 2), dtype=np.int32)},
        {"candidates": np.zeros((0, 4), dtype=np.int32)},
        {"candidates": np.full((3, 4), 3, dtype=np.int32)},
        {"candidates": np.full((3, 4), -1, dtype=np.int32)},
        {"points": tuple(2 * one for one in lattice(BINS, CODED))},
        {"points": tuple(-one for one in lattice(BINS, CODED))},
    ],
)
def test_what_would_not_be_exact_is_refused(changes):
    given = {
        "bins": BINS,
        "points": lattice(BINS, CODED),
        "candidates": np.zeros((3, 4), dtype=np.int32),
    }
    with pytest.raises(OptionError, match=r"points|candidates"):
        NearestVotes(**{**given, **changes})


# Votes of images: for one candidate of their label, whatever the other images, by features of whole numbers.

IMAGE_VOTES_SCHEMA = pixel_schema(8, 8, labels=("across", "down", "both"))
SHAPE = ImageShape(height=8, width=8)


class Signed:
    """Rows of pixels of length 1, of both signs."""

    dim, norm, nonnegative = 64, 1.0, False

    def __call__(self, records):
        rows = records.numeric - 0.5
        return (rows / np.sqrt(np.square(rows).sum(axis=1, keepdims=True))).astype(
            np.float32
        )


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
        BlurredPixels(
            image=ImageShape(
                **dict(zip(("height", "width", "channels"), shape, strict=True))
            )
        ),
        schema.layout,
    )


def test_blurred_pixels_are_the_same_alone_and_among_others_and_tell_where_ink_is():
    pixels, records = BlurredPixels(image=SHAPE), images()
    together = pixels(records)
    assert all(
        pixels(records.rows([row])).tobytes() == together[row].tobytes()
        for row in range(0, 300, 7)
    )
    one = np.zeros((1, 8, 8, 1), dtype=np.uint8)
    assert not pixels(Images(one)).any()
    one[0, 4:6, 2:4] = 255
    assert pixels(Images(one)).reshape(4, 4).argmax() == 9


@pytest.mark.parametrize(
    "encoding", [Signed(), BlurredPixels(image=SHAPE)], ids=["signed", "pixels"]
)
def test_image_votes_keep_the_contract_of_feature_maps(encoding):
    check_feature_map(image_votes(encoding), IMAGE_VOTES_SCHEMA.layout)


def test_whole_numbers_are_no_longer_than_float32_sums_exactly():
    assert 3 * LARGEST_IMAGE <= 2**24 and (SCALE * (1 + 2.0**-15)) ** 2 <= LARGEST_IMAGE
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
        np.concatenate([images().pixels, opposite.pixels]),
        np.concatenate([images().labels, opposite.labels]),
    )
    votes = image_votes(rows=100)
    points = whole_numbers(votes.candidates).astype(np.int64)
    rows = whole_numbers(Signed()(records)).astype(np.int64)
    distances = np.square(rows[:, None] - points[None]).sum(axis=2)
    distances[records.codes[:, :1] != votes.labels] = np.iinfo(np.int64).max
    assert np.array_equal(votes.nearest(records), distances.argmin(axis=1))
    twice = image_votes(candidates=np.repeat(votes.candidates[:1], 60, axis=0))
    first = {
        int(label): int(np.flatnonzero(twice.labels == label)[0])
        for label in np.unique(twice.labels)
    }
    assert twice.nearest(records).tolist() == [
        first[int(label)] for label in records.labels
    ]


def test_an_image_votes_for_its_label_once_and_moves_the_sum_by_the_bound_and_no_more():
    votes, records = image_votes(), images()
    for row, (removed, replaced) in enumerate(moves(records, votes, GRID, 12)):
        assert (
            np.count_nonzero(removed) == 1
            and votes.labels[removed.argmax()] == records.labels[row]
        )
        assert squared(removed) <= GRID.bound.sensitivity_squared(Adjacency.ADD_REMOVE)
        assert squared(replaced) <= GRID.bound.sensitivity_squared(
            Adjacency.REPLACE_ONE
        )


def test_the_vote_of_an_image_does_not_depend_on_other_images():
    votes, records = image_votes(rows=2000), images(1500)
    together = votes.nearest(records)
    order = np.random.default_rng(1).permutation(len(records))
    assert np.array_equal(votes.nearest(records.rows(order)), together[order])
    assert [
        int(votes.nearest(records.rows([row]))[0]) for row in range(0, 1500, 41)
    ] == together[::41].tolist()


def test_images_without_labels_vote_among_all():
    votes = image_votes(labels=np.zeros(60, dtype=np.int32), label=None)
    assert (
        len(
            set(votes.nearest(made_up(pixel_schema(8, 8, labels=None).layout)).tolist())
        )
        > 5
    )
