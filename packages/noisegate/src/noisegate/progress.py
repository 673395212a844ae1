"""How far a run is: a bar, or lines of the log, which is public: of reading, it tells the time and no count.

All is logged under the logger `noisegate`, which has no handler, and is public: of
reading, the time and no count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from noisegate.errors import installed

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 30.0
"""Seconds between two lines of the log."""
READING = "Reading records"

LOG = logging.getLogger("noisegate")
Tell: TypeAlias = Callable[[int, str], None]
"""Takes how much is done, and a note."""


def shows_bars(console: Console) -> bool:
    """Returns whether a console can show a bar that moves."""
    return console.is_terminal or (console.is_jupyter and installed("ipywidgets"))


def spinner(console: Console) -> str:
    """Returns the name of a spinner that a console can write."""
    return "dots" if console.encoding.startswith("utf") else "line"


@contextmanager
def bar(title: str, total: int | None, console: Console) -> Iterator[Tell]:
    """Shows a bar where the console can; without `total`, the note says all."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    counted = [] if total is None else [MofNCompleteColumn(), TimeRemainingColumn()]
    texts = (
        TextColumn("{task.description}"),
        BarColumn(),
        *counted,
        TextColumn("{task.fields[note]}"),
    )
    with Progress(
        SpinnerColumn(spinner(console)),
        *texts,
        console=console,
        transient=True,
        disable=not shows_bars(console),
    ) as shown:
        task = shown.add_task(title, total=total, note="")
        yield lambda done, note: shown.update(task, completed=done, note=note)


@contextmanager
def progress_lines(
    title: str, total: int | None, console: Console | None = None
) -> Iterator[Tell]:
    """Writes a line on how far the work is, at most one every `EVERY` seconds.

    Args:
        title: What is done, such as "Fitting".
        total: Amount of work; None if it is not known.
        console: Where lines are printed; None for the log, which also has the end.
    """
    if console is None:
        write = partial(LOG.info, "%s")
    else:
        write = partial(console.print, markup=False, soft_wrap=True)
    started = last_line = time.monotonic()
    done_before: int | None = None

    def tell(done: int, note: str) -> None:
        nonlocal last_line, done_before
        if done_before is None:
            # A resumed run does not begin at 0.
            done_before = done
        now = time.monotonic()
        if now - last_line < EVERY:
            return
        last_line = now
        parts = []
        if total is not None:
            parts.append(f"{done:,} of {total:,}")
            if done > done_before:
                seconds_left = (now - started) * (total - done) / (done - done_before)
                parts.append(f"about {timedelta(seconds=round(seconds_left))} left")
        if note:
            parts.append(note)
        write(f"{title}: {', '.join(parts) or f'{now - started:.0f} s so far'}")

    yield tell
    if console is None:
        LOG.info("%s: done in %.1f s", title, time.monotonic() - started)


@contextmanager
def reading(
    about: int | None = None, console: Console | None = None
) -> Iterator[Callable[[int], None]]:
    """Shows how many records were read, which is private, in a terminal only.

    Elsewhere lines of the console, or of the log without one, state the time.
    """
    if console is None or not console.is_terminal:
        with (
            progress_lines(READING, None, console) as tell,
            _noting(partial(tell, 0)),
        ):
            yield lambda _done: tell(0, "")
        return
    with (
        bar(READING, 100 if about else None, console) as tell,
        _noting(partial(tell, 99)),
    ):
        rounded = "over {:,}".format
        yield lambda done: tell(
            min(99, 100 * done // about) if about else 0, rounded(done - done % 10_000)
        )


_NOTED: ContextVar[Callable[[str], None] | None] = ContextVar("noted", default=None)


@contextmanager
def _noting(told: Callable[[str], None]) -> Iterator[None]:
    before = _NOTED.set(told)
    try:
        yield
    finally:
        _NOTED.reset(before)


def note(text: str) -> None:
    """Tells whoever watches the reading how far a question is that continues when all records are read."""
    if (told := _NOTED.get()) is not None:
        told(text)


def standard_error() -> Console:
    """Returns the console to which Python shows its bars."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def shown(title: str, total: int | None) -> AbstractContextManager[Tell]:
    """Shows a bar in a terminal or a notebook, and lines of the log elsewhere."""
    console = standard_error()
    return (
        bar(title, total, console)
        if shows_bars(console)
        else progress_lines(title, total)
    )
