"""The long part of a fit by a method that trains on gradients: steps at the gate, kept so that they may be interrupted.

Every step reads private records, so a training that was stopped goes on with DATA; what the rest of it costs was booked
before the first step.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from noisegate.cli.console import ERR, say
from noisegate.cli.run import Run
from noisegate.errors import NoisegateError, OptionError
from noisegate.privacy import accounting

if TYPE_CHECKING:
    from noisegate.cli.unfinished import Unfinished
    from noisegate.gate.gate import Gate
    from noisegate.privacy.gradient_plan import CalibratedGradientPlan
    from noisegate.privacy.release import Release

_PARTS = 20


def taken_up(unfinished: Unfinished, data: str | None, typed: Mapping[str, Any], ledger: str | None) -> Run:
    """Returns the run of an interrupted training.

    Args:
        unfinished: Where it lies.
        data: The private records, which its steps need.
        typed: The options that stand on the command line.
        ledger: Place of the ledger, from an option or from the environment.

    Raises:
        OptionError: if there is no data, or an option says otherwise than the run.
        ModelError: if what was kept is broken.
    """
    if data is None:
        raise OptionError(
            f"DATA, the private records, is missing: {unfinished.folder} holds a training that was interrupted, and "
            f"every step of it reads records. `noisegate fit --resume DATA --out {unfinished.out}` goes on, and costs "
            "nothing more."
        )
    run = Run.read(unfinished.folder, typed=typed.get("ledger"), default=ledger)
    run.check(typed)
    say(f"Going on with {unfinished.out} after {unfinished.steps_begun} steps: nothing more is spent.")
    return run


def train(
    unfinished: Unfinished,
    run: Run,
    gate: Gate,
    plan: CalibratedGradientPlan,
    *,
    data: str,
    device: str,
    may_stop: Callable[[], None],
    progress: Callable[[int, str], None],
) -> Release:
    """Returns what the training at the gate came to; stopped by anything, it can be taken up again.

    Args:
        unfinished: Where to keep it on the way.
        run: What is asked for, by a method that trains on gradients.
        gate: The records and the budget of the run.
        plan: The steps.
        data: Where the records are, for a message.
        device: Where to compute.
        may_stop: Called between steps: stops the training by raising.
        progress: Told the number of steps done, and what they cost.
    """
    from noisegate.fitting.device import choose_device
    from noisegate.methods.trained import Trained

    assert isinstance(run.method, Trained)
    spent = _Spent(plan)

    def report(done: int) -> None:
        may_stop()
        progress(done, spent.after(done))

    if not unfinished.training:
        run.write(unfinished.folder)
    try:
        return run.method.ask(gate, report=report, device=str(choose_device(device)), folder=unfinished.folder)
    except BaseException as error:
        if unfinished.training and not isinstance(error, NoisegateError):
            _say_how_to_go_on(unfinished, plan, data)
        raise


def _say_how_to_go_on(unfinished: Unfinished, plan: CalibratedGradientPlan, data: str) -> None:
    begun = unfinished.steps_begun
    say(
        f"Stopped after {begun} of {plan.plan.steps} steps, which cost epsilon = {_cost(plan, begun):.3g}. The whole "
        f"{plan.budget.epsilon:g} stays spent; the other steps cost nothing more, but read the records again:"
    )
    say(f"  noisegate fit --resume {shlex.quote(data)} --out {shlex.quote(str(unfinished.out))}")


class _Spent:
    """What the steps so far cost, for a progress line; computed for people only, and not at every step."""

    def __init__(self, plan: CalibratedGradientPlan) -> None:
        self._plan, self._part, self._note = plan, -1, ""

    def after(self, done: int) -> str:
        """Returns what so many steps cost, or a few more; nothing where nobody looks."""
        total = self._plan.plan.steps
        part = _PARTS * done // total
        if ERR.is_terminal and part > self._part:
            most = -(-(part + 1) * total // _PARTS)
            self._part, self._note = part, f"epsilon so far at most {_cost(self._plan, min(most, total)):.3g}"
        return self._note


def _cost(plan: CalibratedGradientPlan, done: int) -> float:
    """Returns ε of so many steps, and of all questions."""
    if not done:
        return 0.0
    taken = replace(plan.event, steps=min(done, plan.plan.steps))
    return accounting.epsilon((*plan.events[:-1], taken), plan.budget.delta, plan.budget.adjacency)
