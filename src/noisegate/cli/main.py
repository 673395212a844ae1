"""The command `noisegate`: the verbs in the order in which a data steward needs them."""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, cast

import typer

from noisegate._version import __version__
from noisegate.cli import audit, demo, evaluate, explain, fit, ledger, plan, predict, pretrain, sample, schema, verify
from noisegate.cli.arguments import Verbs
from noisegate.cli.ending import end

VERBS = (
    *("demo", "schema", "plan", "fit", "sample", "evaluate", "explain", "predict"),
    *("verify", "audit", "ledger", "pretrain"),
)


class _InOrder(Verbs):
    def list_commands(self, ctx: object) -> list[str]:
        return list(VERBS)


app = typer.Typer(
    cls=_InOrder,
    name="noisegate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Differentially private synthetic tables and images, with a certificate that anyone can check.\n\n"
    "The order of work: `schema` describes the columns or the images, `plan` shows the price, `fit` spends it once, "
    "`sample` makes records, `evaluate` looks at them, `verify` checks the certificate, `audit` attacks its claim. "
    "`ledger` keeps the books over many runs. After `fit --method dp-llm`, which trains a classifier, `explain` shows "
    "what it answers to, and `predict` asks it.\n\n"
    "Exit codes: 0 done, 2 the request cannot be met as it stands, 3 the ledger refuses, 4 an audit found more than is "
    "claimed.",
)
app.add_typer(schema.app, name="schema")
app.command("plan")(plan.plan_command)
app.command("fit")(fit.fit_command)
app.command("sample")(sample.sample_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("explain")(explain.explain_command)
app.command("predict")(predict.predict_command)
app.command("verify")(verify.verify_command)
app.command("audit")(audit.audit_command)
app.add_typer(ledger.app, name="ledger")
app.add_typer(pretrain.app, name="pretrain")
app.command("demo")(demo.demo_command)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"noisegate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Differentially private synthetic tables and images."""


@cache
def program() -> typer.core.TyperGroup:
    """Returns the verbs with their options; they are read off the functions once in a process."""
    return cast("typer.core.TyperGroup", typer.main.get_command(app))


def run() -> None:
    """Runs the command line, and exits."""
    sys.exit(end(lambda: program()(standalone_mode=False)))
