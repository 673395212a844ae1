"""Who a run tells of itself: the log, a bar, or the console of the command line."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from noisegate.errors import FitWarning
from noisegate.progress import LOG, log_lines, reading, shown, standard_error

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.privacy.plan import PricedPlan


class Observer:
    """What a run tells of itself. This one logs it, and words what must be said in Python."""

    @property
    def watched(self) -> bool:
        """Whether anybody sees the progress."""
        return LOG.isEnabledFor(logging.INFO)

    def option(self, name: str, *value: Any) -> str:
        """Returns an option as it is written, with its value if one is given."""
        return f"{name}={value[0]!r}" if value else name

    def setting(self, name: str, value: Any) -> str:
        """Returns a setting of the method as it is written."""
        return f"{name}={value!r}"

    def call(self, folder: Any, data: Any = None) -> str:
        """Returns what resumes a run; with `data` for one that needs the records."""
        kept = f"out={str(folder.out)!r}, resume=True" if folder.out is not None else f"resume={str(folder.path)!r}"
        return f"noisegate.fit({'' if data is None else 'data, '}{kept})"

    def planned(self, run: Any, gate: Gate, plan: PricedPlan, data: Any) -> None:
        """Called before anything is spent."""
        budget, method = plan.budget, run.method.name
        LOG.info("%s: a plan of epsilon = %g, delta = %g, %s", method, budget.epsilon, budget.delta, run.adjacency)

    def working(self, title: str, total: int | None) -> AbstractContextManager[Callable[[int, str], None]]:
        """Returns a block of work; its function is called with how much is done, and a note."""
        return log_lines(title, total)

    def reading(self, about: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Returns the block in which records are read; its function takes how many were so far, which is private.

        `about` so many there are, where files tell.
        """
        return reading()

    def queried(self, gate: Gate) -> None:
        """Called when the release is whole and written down."""
        LOG.info("The release is whole; nothing more is spent, and no record is needed any more.")

    def say(self, text: str) -> None:
        """Called with what an operator may want to know."""
        LOG.info("%s", text)

    def warn(self, text: str) -> None:
        """Called with what an operator must know; where warnings are errors, nothing is lost for it."""
        LOG.warning("%s", text)
        with suppress(UserWarning):
            warnings.warn(text, UserWarning, stacklevel=3)

    def fitted(self, warning: str) -> None:
        """Called with what is wrong with a fit; where warnings are errors, nothing is lost for it."""
        LOG.warning("%s", warning)
        with suppress(FitWarning):
            warnings.warn(warning, FitWarning, stacklevel=5)

    def kept(self, error: BaseException, text: str, call: str) -> None:
        """Called with what is left of a run that `error` stops, and how to resume it."""
        LOG.warning("%s %s", text, call)
        error.add_note(f"{text}\n  {call}")

    def made(self, model: Any) -> None:
        """Called with the model, once it is whole."""
        verdict = getattr(model, "verdict", None)
        LOG.info("Fitted%s", "." if verdict is None else f"; verdict: {verdict.headline}")


class ShownProgress(Observer):
    """An observer that shows bars in a terminal or a notebook, and logs elsewhere: ``noisegate.fit(progress=True)``."""

    watched = True

    def working(self, title: str, total: int | None) -> AbstractContextManager[Callable[[int, str], None]]:
        """Returns a block of work, shown where it can be."""
        return shown(title, total)

    def reading(self, about: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Returns the block in which records are read; see `noisegate.progress.reading`."""
        return reading(about, standard_error())
