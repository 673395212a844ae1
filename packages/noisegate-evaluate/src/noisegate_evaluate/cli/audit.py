"""`noisegate audit`: attack a method on simulated records, and set what was found beside what is claimed."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisegate.app.cli.console import OUT, print_json, show_progress
from noisegate.app.cli.options import Json, Public, Settings, parse_settings

if TYPE_CHECKING:
    from noisegate_evaluate.auditing.measure import AuditReport

EXCEEDED = 4  # exit code when an audit found more than is claimed, or other noise than is stated


def audit_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|METHOD",
            help="Folder of a model, or the name of a method, or discover for `schema discover`.",
        ),
    ],
    epsilon: Annotated[
        float | None, typer.Option(help="ε to claim. Default: that of the model, or 1.")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="δ to claim. Default: that of the model, or 1e-5."),
    ] = None,
    adjacency: Annotated[
        str | None,
        typer.Option(
            help="add-remove or replace-one. Default: that of the model, or add-remove."
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Columns, a TOML file. Default: those of the model, or built-in ones."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Runs over both data sets. Default: enough to show the noise within 15 %."
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            help="What the attacker sees: projection (all that is released), one-run (the same, of one run with many "
            "canaries), samples (synthetic records alone; fits a model in each run) or attribute (the same, and "
            "all of a record but one column, which is guessed)."
        ),
    ] = "projection",
    public: Public = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Attack a method or the method of a model, and show a lower bound on ε beside the ε that is claimed.

    The method runs many times on two neighbouring sets of simulated records; nothing private is read and nothing is
    spent. A bound below the claim proves nothing; one above it refutes the claim, and ends with exit code 4.

    Example: `noisegate audit pairwise --epsilon 1`
    """
    from noisegate_evaluate.auditing.run import audit as attack

    begun = time.monotonic()
    given = parse_settings(settings, public)

    def note(done: int, total: int) -> str:
        left = (time.monotonic() - begun) / max(done, 1) * (total - done)
        return f"{done} of {total} runs, about {left:.0f} s left"

    with show_progress("Auditing", None) as update:
        report = attack(
            target,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            schema=schema,
            runs=runs,
            by=by,
            progress=lambda done, total: update(done, note(done, total)),
            **given,
        )
    if as_json:
        print_json(report.to_json())
    else:
        _tell(report)
    if not report.holds:
        raise typer.Exit(EXCEEDED)


def _tell(report: AuditReport) -> None:
    colour = "green" if report.holds else "red"
    OUT.print(
        f"[{colour}]{report.verdict}[/{colour}]: {report.method}, epsilon is at least [bold]{report.lower_bound:.3g}"
        f"[/bold], claimed {report.claim:g} at delta = {report.delta:g}, {report.adjacency}."
    )
    OUT.print(
        f"{report.runs} runs, by {report.kind}, confidence "
        f"{report.confidence:.4%}: {report.from_noise:.3g} from the measured "
        f"noise, {report.from_guesses:.3g} from how often two neighbouring data "
        "sets were distinguished."
    )
    if report.guessed is not None:
        with_it, without = report.guessed
        OUT.print(
            f"One column was guessed right with the record in {with_it:.0%} of runs, without it in {without:.0%}."
        )
    if math.isfinite(report.noise[1]):
        everywhere, along = (
            f"{low:.3f} to {high:.3f}" for low, high in (report.noise, report.along)
        )
        OUT.print(
            f"Noise over what is stated: {everywhere}; along what one record adds, {along}."
        )
