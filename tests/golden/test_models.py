"""Models that earlier versions saved are read, draw what they drew, and their certificates hold."""

import json
import math
from collections.abc import Iterator

import pytest

from . import models
from .cases import FITS
from .current import settings
from .differences import differences
from .names import HERE, Certificate, settings_from_json

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
SAMPLES = json.loads((HERE / "samples.json").read_text())
CERTIFICATES = json.loads((HERE / "certificates.json").read_text())


def cells(golden, found) -> Iterator[tuple]:
    """Yields the cells of two samples in pairs."""
    if isinstance(golden, dict):
        assert list(golden) == list(found)
        golden, found = list(golden.values()), list(found.values())
    if isinstance(golden, list):
        assert len(golden) == len(found)
        for pair in zip(golden, found, strict=True):
            yield from cells(*pair)
        return
    yield golden, found


def close(golden, found) -> bool:
    """Whether two cells are equal up to what kernels of another processor may round differently."""
    if type(golden) is not type(found):
        return False
    if isinstance(golden, float):
        return math.isclose(golden, found, rel_tol=1e-7 if golden > 1e6 else 1e-4, abs_tol=1e-5)
    if isinstance(golden, int) and not isinstance(golden, bool):
        return abs(golden - found) <= 1
    return golden == found


def test_every_fit_has_a_model_and_every_model_a_fit():
    folders = {path.name for path in models.MODELS.iterdir()}
    assert folders == set(FITS) == set(SAMPLES) == set(CERTIFICATES)


@pytest.mark.parametrize("fit", SAMPLES)
def test_a_saved_model_draws_what_it_drew(fit):
    pairs = list(cells(SAMPLES[fit], models.drawn(fit)))
    assert [pair for pair in pairs if not close(*pair)] == []
    # Whole numbers, days and pixels may be rounded to their neighbour, but rarely.
    others = [pair for pair in pairs if isinstance(pair[0], int) and pair[0] != pair[1]]
    assert len(others) <= len(pairs) / 20


@pytest.mark.parametrize("fit", CERTIFICATES)
def test_a_certificate_holds_as_it_did(fit):
    assert differences(CERTIFICATES[fit], models.certified(fit), relative=1e-9) == []


@pytest.mark.parametrize("fit", CERTIFICATES)
def test_a_certificate_gives_back_the_settings(fit):
    held = Certificate.from_json(json.loads((models.MODELS / fit / "certificate.json").read_text()))
    method, schema, _ = FITS[fit]
    stored = held.public["settings"]
    read = settings_from_json(held.method, stored)
    assert differences(stored, json.loads(json.dumps(read.to_json()))) == []
    # What was asked for, and the digests of the files that were named.
    asked = json.loads(json.dumps(settings(f"{method} | {schema} | {fit}").to_json()))
    others = {place.partition(":")[0] for place in differences(stored, asked)}
    assert others <= {"/sha256", "/decoder_sha256"}
