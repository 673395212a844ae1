"""Commands in processes of their own: those of the papers and of the queue for a GPU, which take minutes or hours."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from harness.options import Option, fail

ROOT = Path(__file__).resolve().parents[2]
GRACE_SECONDS = 30
"""In which a command that is told to stop may keep where it stands."""

ONLY = Option(kind=str, default=[], is_list=True, help="some, by their ids")

Entry = TypeVar("Entry", bound=Any)


def select(entries: Sequence[Entry], ids: Sequence[str]) -> list[Entry]:
    """Returns the entries with these ids, or all where none is given; ends the script where there is none of an id."""
    known = {entry.id for entry in entries}
    for name in ids:
        if name not in known:
            fail(f"--only {name}: there is none of this id; --list names them")
    return [entry for entry in entries if not ids or entry.id in ids]


def run_logged(arguments: Sequence[str], log: Path, seconds: float) -> int | None:
    """Runs a command from the root of the repository.

    Args:
        arguments: The program and its arguments.
        log: What it prints is appended there.
        seconds: In which it is told to stop, as by an interrupt from a keyboard: a fit keeps its checkpoint then.

    Returns:
        Its exit code; None where it did not end in its time.
    """
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as stopped:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
            process.kill()
            process.wait()
            if isinstance(stopped, KeyboardInterrupt):
                raise
            return None


def commit() -> str:
    """Returns the commit of this checkout, short; "" outside of one."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git
        return ""
    return answer.stdout.strip()
