"""Secure sums: one noise for all, nothing to see in a share, and no sum where a share is missing."""

import os
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from tests.shared.stated import ledger_of

from noisegate import Certificate, Pairwise, merge, release, verify
from noisegate.app.silos.merging import add_up
from noisegate.errors import ModelError, OptionError, installed
from noisegate.gate.gate import Gate
from noisegate.gate.silos.keys import (
    Masking,
    read_public_keys,
    read_silo_key,
    words_from_halves,
    write_key,
)
from noisegate.privacy import accounting, noise
from noisegate.privacy.certificate import render

from .conftest import ONE_ROUND, SCHEMA, SIZES, TABLES

pytestmark = pytest.mark.skipif(
    not installed("cryptography"), reason="masks need the extra silos"
)


@pytest.fixture
def keys(tmp_path):
    for name in SIZES:
        write_key(name, tmp_path / f"{name}.key")
    return tmp_path


@pytest.fixture
def shares(keys):
    """Returns the shares of all silos in one round."""

    def released(
        silos=tuple(SIZES), colluding=0, epsilon=1.0, after=None, folder=keys, **request
    ):
        request = request or ONE_ROUND
        options = {
            "secure_sum": folder,
            "colluding": colluding,
            "epsilon": epsilon,
            "after": after,
            **request,
        }
        return [
            release(TABLES[name], silo=name, key=folder / f"{name}.key", **options)
            for name in silos
        ]

    return released


def exact():
    """The sums of the pooled table, by a release with hardly any noise."""
    pooled = [
        Pairwise(cells=128)
        .query(Gate(TABLES[name], schema=SCHEMA, epsilon=1000.0))
        .values
        for name in SIZES
    ]
    return {name: sum(table[name] for table in pooled) for name in pooled[0]}


@pytest.mark.parametrize("colluding", [0, 1, 2])
def test_the_sum_has_one_noise_and_more_for_those_who_collude(shares, colluding):
    merged = add_up(shares(colluding=colluding))
    right = exact()
    pooled = (
        Pairwise(cells=128)
        .query(Gate(TABLES["north"], schema=SCHEMA, epsilon=1.0))
        .noise_std
    )
    wanted = np.sqrt(len(SIZES) / (len(SIZES) - colluding))
    for name, std in merged.noise_std.items():
        assert std / pooled[name] == pytest.approx(wanted, rel=1e-6)
    noise = np.concatenate(
        [
            (merged.values[name] - right[name]).ravel() / merged.noise_std[name]
            for name in right
        ]
    )
    # Of some 800 coordinates: five standard deviations, a false alarm in a million runs. Two of three shares give 0.82.
    assert len(noise) > 700
    assert abs(noise.std() - 1) < 5 / np.sqrt(2 * len(noise))


def test_a_share_tells_nothing(shares):
    for share in shares():
        words = words_from_halves(share.values["pairs"]).ravel() / 2.0**64
        # Without a mask all words are near 0 or 1. False alarm: one in a million runs.
        assert stats.kstest(words, "uniform").pvalue > 1e-6 / 3
        assert np.abs(np.corrcoef(words[:-1], words[1:])[0, 1]) < 0.3


@pytest.mark.parametrize("colluding", [0, 1, 2])
def test_shares_of_those_who_do_not_collude_suffice(shares, monkeypatch, colluding):
    drawn = []
    add_noise = noise.add_noise
    monkeypatch.setattr(
        noise,
        "add_noise",
        lambda sums, **options: drawn.append(options) or add_noise(sums, **options),
    )
    (north,) = shares(silos=("north",), colluding=colluding)
    assert north.certificate.check() <= 1
    for event, options in zip(north.certificate.events, drawn, strict=True):
        assert options["sampler"].value == "discrete-gaussian"
        honest = len(SIZES) - colluding
        assert (
            event.noise_std
            <= options["noise_std"] * np.sqrt(honest)
            < event.noise_std * (1 + 1e-9)
        )


def test_the_certificate_of_a_secure_sum(shares, tmp_path):
    merged = merge(
        shares(colluding=1), stated_by="the registry", out=tmp_path / "model"
    )
    certificate = verify(tmp_path / "model").certificate
    assert certificate.silos.colluding == 1
    assert {event.sampler.value for event in certificate.events} == {"summed-gaussian"}
    assert "together with 1 of the silos" in render(certificate)
    assert (
        Certificate.from_json(certificate.to_json())
        == certificate
        == merged.certificate
    )
    assert 0.999 < certificate.check() <= 1


def test_a_unit_in_all_silos_moves_the_sum_once_for_each(shares):
    merged = add_up(shares(), overlapping=True).certificate
    wider = [
        replace(event, sensitivity=3 * event.sensitivity) for event in merged.events
    ]
    assert merged.epsilon == accounting.epsilon(wider, 1e-5) > 3


def test_two_rounds_under_masks(shares):
    request = {"schema": SCHEMA, "method": Pairwise(cells=6), "colluding": 1}
    first = add_up(shares(**request))
    assert set(first.values) == {"coarse", "fine"}
    done = add_up(shares(after=first, **request), after=first)
    assert 0.999 < done.certificate.check() <= 1
    assert done.values["counts"].sum() == pytest.approx(
        sum(SIZES.values()), abs=6 * done.noise_std["counts"] * 2
    )


def test_what_a_share_takes_part_in_is_checked(shares, keys, answers):
    north, south, west = shares()
    with pytest.raises(OptionError, match="the share of west is missing"):
        merge([north, south])
    (plain,) = answers(silos=("west",), **ONE_ROUND)
    with pytest.raises(
        OptionError, match="one is a share of a secure sum, and the other is not"
    ):
        merge([north, south, plain])
    (other,) = shares(silos=("west",), colluding=1)
    with pytest.raises(
        OptionError, match=r"shares of different sums \(colluding differ\)"
    ):
        merge([north, south, other])
    (dearer,) = shares(silos=("west",), epsilon=2.0)
    with pytest.raises(
        OptionError, match=r"shares of different sums \(events differ\)"
    ):
        merge([north, south, dearer])
    public = {
        **west.certificate.public,
        "secure_sum": {**west.certificate.public["secure_sum"], "sum": "0"},
    }
    with pytest.raises(ModelError, match="states the sum 0"):
        merge(
            [
                north,
                south,
                replace(west, certificate=replace(west.certificate, public=public)),
            ]
        )


def test_a_second_answer_under_the_same_masks_is_refused_and_costs_nothing(
    shares, tmp_path
):
    shares(silos=("north",))
    book = ledger_of(tmp_path, "ward", epsilon=1)
    with pytest.raises(OptionError, match="'north' has answered this sum before"):
        shares(silos=("north",), ledger=book, dataset="ward", **ONE_ROUND)
    assert book.show("ward")[0].spent == 0


def test_rounds_go_on_as_they_began(shares, answers):
    request = {"schema": SCHEMA, "method": Pairwise(cells=6)}
    plain = add_up(answers(**request))
    masked = add_up(shares(**request))
    with pytest.raises(OptionError, match="the round before was no secure sum"):
        shares(silos=("north",), after=plain, **request)
    with pytest.raises(
        OptionError, match="the round before was a secure sum with colluding=0"
    ):
        answers(silos=("north",), after=masked, **request)


def test_keys(keys, tmp_path):
    public = read_public_keys(keys)
    assert list(public) == sorted(SIZES)
    assert (keys / "north.key").stat().st_mode & 0o077 == 0
    assert read_silo_key(keys, keys / "north.key", 1).silo == "north"
    assert read_silo_key(None, None, 1) is None
    assert "private" not in (keys / "north.pub").read_text()
    with pytest.raises(OptionError, match="go together"):
        read_silo_key(keys, None, 1)
    with pytest.raises(OptionError, match="exists"):
        write_key("north", keys / "north.key")
    with pytest.raises(
        OptionError, match="holds no public key of 'north' that belongs to it"
    ):
        write_key("north", tmp_path / "other.key")
        (tmp_path / "other.pub").unlink()
        read_silo_key(keys, tmp_path / "other.key", 1)


@pytest.mark.skipif(sys.platform == "win32", reason="no modes of files")
def test_a_key_that_others_may_have_read_is_not_used(keys, tmp_path):
    folder = shutil.copytree(keys, tmp_path / "copied")
    key = folder / "north.key"
    key.chmod(0o640)
    with pytest.raises(
        OptionError,
        match=r"north\.key'? is open to other users of this machine \(mode 640\)",
    ):
        read_silo_key(folder, key, 0)
    key.chmod(0o600)
    assert read_silo_key(folder, key, 0).silo == "north"


@pytest.mark.skipif(sys.platform == "win32", reason="no modes of files")
def test_a_folder_of_marks_that_lay_open_to_others_is_closed_or_refused(
    keys, tmp_path, monkeypatch
):
    folder = shutil.copytree(keys, tmp_path / "copied")
    masking = SimpleNamespace(
        used_folder=folder / "north.key.used",
        silo="north",
        sum=SimpleNamespace(identity="0" * 64),
    )
    masking.used_folder.mkdir()
    masking.used_folder.chmod(0o777)
    Masking.mark_used(masking)
    assert masking.used_folder.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    masking.sum.identity = "1" * 64
    with pytest.raises(OptionError, match="belongs to another user"):
        Masking.mark_used(masking)


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"format": 1, "silo": "x", "public": "zz"}', "no JSON"]
)
def test_broken_keys(keys, text):
    (keys / "west.pub").write_text(text)
    with pytest.raises(ModelError, match=r"west\.pub"):
        read_public_keys(keys)


def test_folders_without_all_keys(keys):
    for name in ("north", "south"):
        (keys / f"{name}.pub").unlink()
    with pytest.raises(OptionError, match="holds 1 public keys"):
        read_public_keys(keys)
    (keys / "more.pub").write_text((keys / "west.pub").read_text())
    with pytest.raises(OptionError, match="two public keys of the silo 'west'"):
        read_public_keys(keys)


def test_a_key_under_a_second_name_is_refused(keys, tmp_path):
    other = tmp_path / "other"
    os.link(keys / "north.key", other)
    for name in (other, keys / "north.key"):
        with pytest.raises(
            OptionError,
            match=r"has 2 names .*under another name it would be used twice",
        ):
            read_silo_key(keys, name, 1)
    other.unlink()
    assert read_silo_key(keys, keys / "north.key", 1).silo == "north"


def test_a_key_of_another_silo_is_refused(keys):
    with pytest.raises(OptionError, match="the key is of the silo 'south'"):
        release(
            TABLES["north"],
            silo="north",
            epsilon=1.0,
            secure_sum=keys,
            key=keys / "south.key",
            **ONE_ROUND,
        )
