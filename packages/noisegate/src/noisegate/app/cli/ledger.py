"""`noisegate ledger`: privacy budgets, and what was spent on each data set."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from noisegate.app.cli.console import OUT, VerbGroup, print_json, say, table, warn
from noisegate.app.cli.options import Adjacency, Delta, Json, LedgerOption, Unit
from noisegate.errors import LedgerWarning, OptionError
from noisegate.ledger.accounts import Account, Kind
from noisegate.ledger.budgets import cost
from noisegate.ledger.ledger import Entry, Ledger
from noisegate.privacy.accounting import upwards
from noisegate.privacy.events import RECORD, event_to_json

app = typer.Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    help="Track privacy budgets and their use.",
    rich_markup_mode="markdown",
)
_MOST_PARTS = 6  # runs on a data set that are told one by one
Dataset = Annotated[str, typer.Argument(help="Name of the data set.")]


@app.command("register")
def register_command(
    dataset: Dataset,
    epsilon: Annotated[float, typer.Option(help="Cap on ε over all runs, for good.")],
    delta: Delta = 1e-5,
    adjacency: Adjacency = "add-remove",
    unit: Unit = "record",
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Schema file of linked tables: it says what the unit is, in place of --unit."
        ),
    ] = None,
    ledger: LedgerOption = None,
    as_json: Json = False,
) -> None:
    """Register a data set with a cap that no sequence of runs can exceed.

    Example: `noisegate ledger register clinic-2026 --epsilon 3`

    Linked tables: `noisegate ledger register clinic-2026 --epsilon 3 --schema clinic.toml`
    """
    unit = unit if schema is None else _unit_in(schema, unit)
    book = Ledger(ledger)
    with warnings.catch_warnings(record=True, category=LedgerWarning) as told:
        warnings.simplefilter("always", LedgerWarning)
        book.register(
            dataset, epsilon=epsilon, delta=delta, adjacency=adjacency, unit=unit
        )
    for one in told:
        warn(str(one.message))
    if as_json:
        capped = {
            "epsilon": epsilon,
            "delta": delta,
            "adjacency": adjacency,
            "unit": unit,
        }
        print_json({"dataset": dataset, **capped, "ledger": book.location})
        return
    say(
        f"Registered {dataset!r} with a cap of epsilon = {epsilon:g} at delta = {delta:g} in {book.location}."
    )


def _unit_in(path: Path, unit: str) -> str:
    from noisegate.privacy.plan import linked_unit
    from noisegate.schema.schema import is_linked, read_schema

    schema = read_schema(path)
    if not is_linked(schema) or unit != RECORD:
        raise OptionError(
            f"--schema {path} says the unit of linked tables; for one table give --unit alone."
        )
    return linked_unit(schema.names)


@app.command("show")
def show_command(
    dataset: Annotated[
        str | None, typer.Argument(help="Name of the data set; all when left out.")
    ] = None,
    ledger: LedgerOption = None,
    as_json: Json = False,
) -> None:
    """Show caps, what was spent and what remains."""
    book = Ledger(ledger)
    accounts = book.show(dataset)
    if as_json:
        print_json(
            {
                "accounts": [
                    asdict(account) | {"adjacency": account.adjacency.value}
                    for account in accounts
                ]
            }
        )
        return
    rows = [
        [
            account.dataset,
            f"{account.epsilon:g}",
            f"{account.delta:g}",
            _up(account.spent),
            "-" if account.remaining is None else f"{account.remaining:.4g}",
            *map(str, (account.committed, account.reserved, account.voided)),
            f"{account.adjacency.value}, {account.unit}",
        ]
        for account in accounts
    ]
    figures = dict.fromkeys(
        ["cap ε", "δ", "spent ε", "left ε", "done", "open", "void"], "right"
    )
    headings = {"data set": "left", **figures, "neighbours, unit": "left"}
    OUT.print(table(f"Ledger {book.location}", headings, rows))
    OUT.print(
        "left ε: the most that one more run may cost; done, open and void: numbers of runs; open ones are spent."
    )
    for account in accounts:
        if account.committed + account.reserved:
            OUT.print(
                _sum(account, book.history(account.dataset)),
                soft_wrap=True,
                markup=False,
            )


def _sum(account: Account, entries: Sequence[Entry]) -> str:
    """Returns what each run on a data set cost, what all cost together, and what is left, at the cap's δ."""
    void = {entry.reservation for entry in entries if entry.kind is Kind.VOID}
    runs = [
        entry
        for entry in entries
        if entry.kind is Kind.RESERVE and entry.reservation not in void
    ]
    few = runs if len(runs) <= _MOST_PARTS else []
    costs = [
        f"{run.purpose} {_up(cost(run.events, account.delta, account.adjacency))}"
        for run in few
    ]
    summed = " + ".join(costs) or f"{len(runs)} runs"
    left = (
        ""
        if account.remaining is None
        else f"; {account.remaining:.4g} left for one more run"
    )
    return f"{account.dataset}: {summed} = {_up(account.spent)} at δ = {account.delta:g}; cap {account.epsilon:g}{left}"


def _up(spent: float) -> str:
    """Returns a cost as pages and certificates state it: never below what it is."""
    return f"{upwards(Decimal(repr(spent)), 4):g}"


@app.command("history")
def history_command(
    dataset: Dataset, ledger: LedgerOption = None, as_json: Json = False
) -> None:
    """Show every entry of a data set, in order."""
    entries = Ledger(ledger).history(dataset)
    if as_json:
        print_json({"entries": [_entry(entry) for entry in entries]})
        return
    rows = [
        [
            str(e.sequence),
            e.time[:19],
            e.kind.value,
            (e.reservation or "")[:8],
            e.purpose or e.reason or "",
            e.hash[:8],
        ]
        for e in entries
    ]
    OUT.print(
        table(
            dataset,
            dict.fromkeys(
                ["#", "time (UTC)", "entry", "run", "purpose or reason", "hash"], "left"
            ),
            rows,
        )
    )


def _entry(entry: Entry) -> dict[str, object]:
    told = {
        name: value
        for name, value in vars(entry).items()
        if name not in ("dataset", "cap")
    }
    return told | {
        "kind": entry.kind.value,
        "events": [event_to_json(event) for event in entry.events],
    }


@app.command("check")
def check_command(ledger: LedgerOption = None, as_json: Json = False) -> None:
    """Recompute the hash chain and every account; an edited, removed or reordered entry is found."""
    book = Ledger(ledger)
    rows = book.check()
    if as_json:
        print_json({"ok": True, "entries": rows, "ledger": book.location})
    else:
        OUT.print(
            f"[green]The ledger is whole:[/green] {rows} entries in {book.location}."
        )
