"""Masks: over all silos they are zero, and they are never the same twice."""

import os
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from noisegate.errors import OptionError, installed
from noisegate.gate.silos.keys import (
    Masking,
    SecureSum,
    generate_key_pair,
    halves_of_words,
    private_key_from_digits,
    words_from_halves,
)

pytestmark = pytest.mark.skipif(
    not installed("cryptography"), reason="masks need the extra silos"
)


def silos(count, tmp_path, **changes):
    """Returns the masks of each silo in one sum."""
    pairs = {f"silo-{index}": generate_key_pair() for index in range(count)}
    keys = {name: public for name, (_, public) in pairs.items()}
    shared = SecureSum(
        **{"keys": keys, "colluding": 0, "plan": "plan", "events": (), **changes}
    )
    return [
        Masking(
            sum=shared,
            silo=name,
            private_key=private_key_from_digits(private),
            used_folder=tmp_path / name,
        )
        for name, (private, _) in pairs.items()
    ]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_masks_cancel(count, tmp_path):
    total = sum(silo.mask("pairs", 50) for silo in silos(count, tmp_path))
    assert total.dtype == np.uint64
    assert not total.any()


def test_signed_values_of_any_size_come_out_of_the_masks(tmp_path):
    values = np.array(
        [
            [2**60, -(2**60), 0, -1, 1],
            [2**61, -(2**61), 5, 2**60, -7],
            [-3, 2**60, 0, -1, 1],
        ]
    )
    masked = [
        row.view(np.uint64) + silo.mask("sums", 5)
        for row, silo in zip(values, silos(3, tmp_path), strict=True)
    ]
    sent = [words_from_halves(halves_of_words(row[:, None])) for row in masked]
    assert np.array_equal(sum(sent)[:, 0].view(np.int64), values.sum(axis=0))


def test_a_mask_is_uniform(tmp_path):
    words = silos(2, tmp_path)[0].mask("sums", 20_000)
    shares = [np.mean((words >> np.uint64(bit)) & np.uint64(1)) for bit in range(64)]
    # Six standard deviations: a false alarm in 10⁷ runs.
    assert np.abs(np.array(shares) - 0.5).max() < 6 * 0.5 / np.sqrt(20_000)


def test_masks_of_two_queries_rounds_plans_and_rosters_have_nothing_in_common(tmp_path):
    first = silos(3, tmp_path)[0]
    others = [
        replace(first, sum=replace(first.sum, **change))
        for change in (
            {"after": "first round"},
            {"plan": "other plan"},
            {"colluding": 1},
            {"events": ({"name": "sums"},)},
            {"keys": dict(list(first.sum.keys.items())[:2])},
        )
    ]
    masks = [context.mask("pairs", 100) for context in (first, *others)] + [
        first.mask("counts", 100)
    ]
    for one, two in combinations(masks, 2):
        assert not (one == two).any()
    assert np.array_equal(masks[0], first.mask("pairs", 100))


def test_marks_are_on_disk_before_anything_is_masked(tmp_path, monkeypatch):
    silo = silos(2, tmp_path)[0]
    synced = []
    sync = os.fsync

    def noted(handle):
        synced.append(os.fstat(handle).st_ino)
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    silo.mark_used()
    mark = silo.used_folder / silo.sum.identity
    assert synced == [
        path.stat().st_ino for path in (mark, silo.used_folder, silo.used_folder.parent)
    ]


def test_masks_are_used_once(tmp_path):
    first = silos(2, tmp_path)[0]
    first.mark_used()
    replace(first, sum=replace(first.sum, after="first round")).mark_used()
    with pytest.raises(OptionError, match="'silo-0' has answered this sum before"):
        first.mark_used()


@pytest.mark.parametrize(
    "numbers",
    [[[1.0]], [[0.5], [0.0]], [[-1.0], [0.0]], [[2.0**32], [0.0]], [[np.nan], [0.0]]],
)
def test_what_is_no_words(numbers):
    with pytest.raises(ValueError, match="no halves of words"):
        words_from_halves(np.array(numbers))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": {"north": "aa"}}, "keys of 1 silos"),
        ({"keys": {"north": "aa", "south": "aa"}}, "have the same key"),
        ({"colluding": 2}, "colluding=2"),
        ({"colluding": -1}, "colluding=-1"),
        ({"colluding": True}, "colluding=True"),
    ],
)
def test_sums_that_cannot_be(change, message):
    with pytest.raises(OptionError, match=message):
        SecureSum(
            **{
                "keys": {"north": "aa", "south": "bb"},
                "colluding": 0,
                "plan": "p",
                "events": (),
                **change,
            }
        )
