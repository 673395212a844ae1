"""Every name of the package that the golden tests use: a refactoring that moves or renames one changes a line here.

The golden files never change. Where a word changes, `RENAMED` says so, and where something is added, `ADDED` does: both
are read as public promises, so an entry belongs into the changelog too.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from noisegate import (
    Certificate,
    Ledger,
    Schema,
    Synthesizer,
    UserError,
    fit_period,
    verify,
)
from noisegate.app.cli.main import run as run_program
from noisegate.methods.registry import METHODS, method_named
from noisegate.methods.registry import make_for as settings_for

__all__ = [
    "Certificate",
    "Ledger",
    "Schema",
    "Synthesizer",
    "UserError",
    "fit_period",
    "settings_for",
    "settings_from_json",
    "verify",
]

LATER = frozenset({"dp-sinkhorn", "linked"})
"""Methods without golden files: a transport's gradient has kinks that other processors round to another side, and
linked tables are not one table (packages/noisegate/tests/methods/test_linked.py)."""

METHOD_NAMES = tuple(name for name in METHODS if name not in LATER)


def settings_from_json(name: str, settings: dict[str, Any]) -> Any:
    """Returns a method with the settings that a certificate holds."""
    return method_named(name).from_json(settings)


NOISE_SEAM = "noisegate.privacy.noise.add_noise"
"""The one function behind which Gaussian noise is drawn: sums in grid units and keywords in, noisy sums out."""

WORDS_SEAM = "noisegate.gate.sessions.shards.ShardVectors._start_shards"
"""Where records are split into shards: the session, a word for each record and the seed of draws within shards in."""

RENAMED: dict[str, str] = {}
"""Keys of settings and plans by the name that they had, to the one that they have now."""

ADDED = frozenset(
    {
        "ema_decay",
        "gamma",
        "matched",
        "orders",
        "preset",
        "prior_network",
        "regression",
        "regression_ceiling",
    }
    | {
        "moments",
        "moments_share",
        "report_share",
        "sampling_total_variation",
        "start",
        "start_bound",
        "start_share",
        "start_steps",
        "verdict",
    }
    | {
        "prior_rate",
        "strokes",
        "strokes_scale",
        "strokes_sha256",
        "strokes_share",
        "total_variation",
    }
    | {
        "pose",
        "tone",
        "tries",
        "unit_orientations",
        "student_rounds",
        "wavelets",
        "wavelets_scale",
        "wavelets_share",
    }
)
"""Keys of settings and plans that there were none of when the golden files were written."""

GONE: dict[str, Any] = {
    **dict.fromkeys(("pixel_scale", "orientation_scale")),
    **dict.fromkeys(("pixels_share", "orientations_share", "strokes_share"), 1.0),
    **{"wavelets_scale": 0.3, "strokes_scale": 0.5, "directions": 8, "pool": True},
}
"""Settings of `joint` that went, with the value that certificates hold: they are read, and mean what they meant."""

HERE = Path(__file__).parent
FILES = HERE / "files"


def program(*arguments: Any) -> tuple[int, str, str]:
    """Runs the command line in this process, in the folder of the files; returns exit code, output and errors."""
    out = io.StringIO()
    err = io.StringIO()
    with (
        contextlib.chdir(FILES),
        patch.object(sys, "argv", ["noisegate", *map(str, arguments)]),
        patch.dict(os.environ, {"COLUMNS": "120"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # an old name may warn
        try:
            run_program()
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue(), err.getvalue()
    raise AssertionError("the program returned without an exit code")


def printed(*arguments: Any) -> Any:
    """Returns the JSON that a verb prints."""
    code, out, err = program(*arguments, "--json")
    assert code == 0, out + err
    return json.loads(out)


@contextlib.contextmanager
def without_noise(seen: Callable[[Any], None]) -> Iterator[None]:
    """Lets the exact sums leave the gate, and shows each to `seen`, in grid units; shards get records in turn."""
    begin = pkgutil.resolve_name(WORDS_SEAM)

    def silent(sums: Any, **_: Any) -> Any:
        seen(sums.copy())
        return sums

    def in_turn(session: Any, words: Any, seed: int) -> None:
        begin(session, np.arange(len(words), dtype=np.uint64), 0)

    with patch(NOISE_SEAM, silent), patch(WORDS_SEAM, in_turn):
        yield
