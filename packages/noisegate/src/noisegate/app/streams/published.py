"""The plan of a stream as a file: published once, followed by every period."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from noisegate.app.runs.folder import Run
from noisegate.app.silos.shared_plan import (
    calibrated_plan,
    plan_id,
    read_plan,
    write_plan,
)
from noisegate.errors import ModelError, OptionError
from noisegate.methods.abilities import in_rounds
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.continual_plan import Horizon
from noisegate.privacy.release import read_json
from noisegate.schema.schema import is_linked


def publish_stream(run: Run, horizon: Horizon, out: Path) -> str:
    """Writes the plan of a stream to a new file; returns its identifier.

    Raises:
        OptionError: if there are no streams of such tables, schemas or methods.
    """
    if is_linked(run.schema):
        raise OptionError(
            "schema: of linked tables there are no streams. The privacy unit is a "
            "record of the first table with all that belongs to it, which would come "
            "in several periods. Make a stream of one table."
        )
    if run.discovery is not None:
        raise OptionError(
            "schema: it was estimated from private records, at a cost that is of one "
            "period alone; a stream takes a schema of public knowledge."
        )
    once = calibrated_plan(run.method, run.table, run.budget)
    plan = horizon.plan(once)
    # Refuses methods that do not ask in rounds.
    method = in_rounds(run.method)
    method.next_round(run.table, plan, {}, horizon.noise_by_query(plan, 1))
    write_plan(run, out, stream=horizon.facts)
    return stream_id(run, horizon)


def read_stream(path: Path, **own: Any) -> tuple[Run, Horizon]:
    """Reads the plan of a stream.

    Args:
        path: The file that `publish_stream` wrote.
        own: What is the reader's own: dataset and ledger, as fields of `Run`.

    Returns:
        What each period asks, and the periods.

    Raises:
        ModelError: if the file is no plan of a stream, or was changed.
    """
    run = read_plan(path, settle=False, **own)
    try:
        return run, Horizon.of(read_json(path)["stream"])
    except (KeyError, TypeError, AttributeError, OptionError):
        raise ModelError(
            f"{path} is the plan of no stream; "
            "`noisegate plan --periods N --save FILE` writes one."
        ) from None


def stream_id(run: Run, horizon: Horizon) -> str:
    """Returns the SHA-256, in hexadecimal, of everything that a stream asks."""
    plan = calibrated_plan(run.method, run.table, run.budget)
    content = {
        "plan": plan_id(run.method, run.table, plan),
        "epsilon": run.epsilon,
        "delta": run.delta,
        **horizon.facts,
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()
