"""`noisegate ledger`: privacy budgets, and what was spent on each data set.

- `register` sets the cap of a data set, once and for all.
- `show` prints what was spent of each cap, and what remains.
- `history` prints the entries of one data set.
- `check` recomputes the hash chain and all accounts.

Only runs write further entries; see `noisegate.ledger`. A fit at ε = 1 shows as::

    data set  cap ε      δ  spent ε  left ε  done  open  void  neighbours, unit
    ───────────────────────────────────────────────────────────────────────────
    clinic        3  1e-05        1   2.756     1     0     0  add-remove, record
    clinic: pairwise 1 = 1 at δ = 1e-05; cap 3; 2.756 left for one more run

    #  time (UTC)           entry     run       purpose or reason  hash
    ───────────────────────────────────────────────────────────────────
    1  2026-11-29T20:15:36  register                               ba3cd410
    2  2026-11-29T20:15:39  reserve   f2d7aa26  pairwise           29b863af
    3  2026-11-29T20:15:39  confirm   f2d7aa26                     edab604d
    4  2026-11-29T20:15:39  commit    f2d7aa26                     032bab0b

More than 3 - 1 is left, since costs are composed and not added.
"""

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
from noisegate.privacy.accounting import round_up
from noisegate.privacy.events import RECORD, event_to_json

app = typer.Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    help="Track privacy budgets and their use.",
    rich_markup_mode="markdown",
)
_MAX_RUNS_LISTED = 6
"""Runs on a data set whose costs are listed one by one; of more, their number."""
_HASH_DIGITS = 8
"""Digits of a hash, or of the name of a run, that a table shows."""
Dataset = Annotated[str, typer.Argument(help="Name of the data set.")]


@app.command("register")
def register_command(
    dataset: Dataset,
    epsilon: Annotated[float, typer.Option(help="Cap on ε over all runs; permanent.")],
    delta: Delta = 1e-5,
    adjacency: Adjacency = "add-remove",
    unit: Unit = "record",
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Schema file of linked tables, which defines the unit, instead of "
            "--unit."
        ),
    ] = None,
    ledger: LedgerOption = None,
    as_json: Json = False,
) -> None:
    """Register a data set with a cap that no sequence of runs can exceed.

    Example: `noisegate ledger register clinic-2026 --epsilon 3`

    Linked tables: `noisegate ledger register clinic-2026 --epsilon 3 --schema clinic.toml`
    """
    registered_unit = unit if schema is None else _linked_unit(schema, unit)
    book = Ledger(ledger)
    with warnings.catch_warnings(record=True, category=LedgerWarning) as caught:
        warnings.simplefilter("always", LedgerWarning)
        book.register(
            dataset,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            unit=registered_unit,
        )
    # As of a name with letters of several alphabets; printed like all other warnings.
    for warning in caught:
        warn(str(warning.message))
    if as_json:
        print_json(
            {
                "dataset": dataset,
                "epsilon": epsilon,
                "delta": delta,
                "adjacency": adjacency,
                "unit": registered_unit,
                "ledger": book.location,
            }
        )
        return
    say(
        f"Registered {dataset!r} with a cap of epsilon = {epsilon:g} at delta = "
        f"{delta:g} in {book.location}."
    )


def _linked_unit(path: Path, unit: str) -> str:
    """Returns the privacy unit of linked tables: a record of the first, with its own.

    Args:
        path: Value of --schema.
        unit: Value of --unit, which must be left at its default.

    Raises:
        OptionError: if the schema is of one table, or --unit is given too.
    """
    from noisegate.privacy.plan import linked_unit
    from noisegate.schema.schema import is_linked, read_schema

    schema = read_schema(path)
    if not is_linked(schema) or unit != RECORD:
        raise OptionError(
            f"--schema {path} defines the unit of linked tables; for one table "
            "give --unit instead."
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
        account_fields = [
            {**asdict(account), "adjacency": account.adjacency.value}
            for account in accounts
        ]
        print_json({"accounts": account_fields})
        return
    headings = {
        "data set": "left",
        "cap ε": "right",
        "δ": "right",
        "spent ε": "right",
        "left ε": "right",
        "done": "right",
        "open": "right",
        "void": "right",
        "neighbours, unit": "left",
    }
    rows = [_account_row(account) for account in accounts]
    OUT.print(table(f"Ledger {book.location}", headings, rows))
    OUT.print(
        "left ε: the most that one more run may cost. Spent and left may add up to "
        "more than the cap, because several runs together cost less than the sum "
        "of their costs. done, open, void: numbers of runs; open runs count as "
        "spent."
    )
    for account in accounts:
        has_runs = account.committed + account.reserved > 0
        if has_runs:
            entries = book.history(account.dataset)
            OUT.print(_cost_sentence(account, entries), soft_wrap=True, markup=False)


def _account_row(account: Account) -> list[str]:
    """Returns the cells of one data set in the table of accounts.

    A dash if others than Gaussian runs were spent: what they leave depends on the run
    that comes next.
    """
    remaining = "-" if account.remaining is None else f"{account.remaining:.4g}"
    return [
        account.dataset,
        f"{account.epsilon:g}",
        f"{account.delta:g}",
        _format_cost(account.spent),
        remaining,
        str(account.committed),
        str(account.reserved),
        str(account.voided),
        f"{account.adjacency.value}, {account.unit}",
    ]


def _cost_sentence(account: Account, entries: Sequence[Entry]) -> str:
    """Returns what the runs on a data set cost, alone and together, and what is left.

    It has the form "DATASET: PURPOSE ε + PURPOSE ε = ε at δ = δ; cap ε; ε left for one
    more run". Costs are composed, so the total is mostly below their sum.

    Args:
        account: Of the data set.
        entries: All entries of the data set.
    """
    # A void run drew no noise, and costs nothing.
    void_runs = {entry.reservation for entry in entries if entry.kind is Kind.VOID}
    runs = [
        entry
        for entry in entries
        if entry.kind is Kind.RESERVE and entry.reservation not in void_runs
    ]
    summed = f"{len(runs)} runs"
    if 0 < len(runs) <= _MAX_RUNS_LISTED:
        summed = " + ".join(
            f"{run.purpose} {_format_cost(_cost_alone(run, account))}" for run in runs
        )
    sentence = (
        f"{account.dataset}: {summed} = {_format_cost(account.spent)} at δ = "
        f"{account.delta:g}; cap {account.epsilon:g}"
    )
    if account.remaining is not None:
        sentence += f"; {account.remaining:.4g} left for one more run"
    return sentence


def _cost_alone(run: Entry, account: Account) -> float:
    """Returns ε of a run as if it were the only one, at the δ of the cap."""
    return cost(run.events, account.delta, account.adjacency)


def _format_cost(epsilon: float) -> str:
    """Returns a cost as pages and certificates state it: rounded up to 4 digits."""
    return f"{round_up(Decimal(repr(epsilon)), 4):g}"


@app.command("history")
def history_command(
    dataset: Dataset, ledger: LedgerOption = None, as_json: Json = False
) -> None:
    """Show every entry of a data set, in order."""
    entries = Ledger(ledger).history(dataset)
    if as_json:
        print_json({"entries": [_entry_fields(entry) for entry in entries]})
        return
    headings = ["#", "time (UTC)", "entry", "run", "purpose or reason", "hash"]
    rows = [_entry_row(entry) for entry in entries]
    OUT.print(table(dataset, dict.fromkeys(headings, "left"), rows))


def _entry_row(entry: Entry) -> list[str]:
    """Returns the cells of one entry: hashes abbreviated, the time to the second.

    An entry has a purpose (of a run) or a reason (of a void run), or neither.
    """
    return [
        str(entry.sequence),
        entry.time[: len("2026-01-31T12:00:00")],
        entry.kind.value,
        (entry.reservation or "")[:_HASH_DIGITS],
        entry.purpose or entry.reason or "",
        entry.hash[:_HASH_DIGITS],
    ]


def _entry_fields(entry: Entry) -> dict[str, object]:
    """Returns an entry as a JSON object.

    The data set is the one that was asked for, and its cap is in `ledger show`.
    """
    fields = {
        name: value
        for name, value in vars(entry).items()
        if name not in ("dataset", "cap")
    }
    fields["kind"] = entry.kind.value
    fields["events"] = [event_to_json(event) for event in entry.events]
    return fields


@app.command("check")
def check_command(ledger: LedgerOption = None, as_json: Json = False) -> None:
    """Recompute the hash chain and every account; find edited, removed or reordered rows."""
    book = Ledger(ledger)
    entry_count = book.check()
    if as_json:
        print_json({"ok": True, "entries": entry_count, "ledger": book.location})
        return
    OUT.print(
        f"[green]The ledger is whole:[/green] {entry_count} entries in {book.location}."
    )
