"""What the benchmarks print: tables on the terminal, tables in pages, figures with their spread."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table

from noisegate import UserError

CANNOT_RUN = 2
"""Exit code where data or a setting is missing."""


def run_main(main: Callable[[], int | None]) -> NoReturn:
    """Ends the script with the exit code of its main function; what a user can mend is a message and code 2."""
    try:
        code = main()
    except UserError as error:
        Console().print(f"[red]{error}[/red]")
        code = CANNOT_RUN
    sys.exit(code)


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    n_left: int = 1,
    width: int | None = None,
) -> None:
    """Prints a table on the terminal, where it has a row.

    Args:
        title: Above it.
        headings: Of its columns.
        rows: Their cells.
        n_left: How many columns are left-justified, the first ones.
        width: Of the page, in characters; that of the terminal where there is none.
    """
    table = Table(title=title, title_justify="left")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < n_left else "right")
    for row in rows:
        table.add_row(*map(str, row))
    if table.row_count:
        Console(width=width).print(table)


def verdict(is_met: bool) -> str:
    """Returns a word for a goal, in its colour."""
    return "[green]pass[/green]" if is_met else "[red]miss[/red]"


def markdown_row(cells: Iterable[Any]) -> str:
    """Returns a row of a table in Markdown."""
    return f"| {' | '.join(map(str, cells))} |"


def markdown_table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], *, n_left: int | None = None
) -> list[str]:
    """Returns the lines of a table in Markdown.

    Args:
        headings: Of its columns.
        rows: Their cells.
        n_left: How many columns are left-justified, the first ones; all where there is none.
    """
    marks = [
        "---" if n_left is None or index < n_left else "---:"
        for index in range(len(headings))
    ]
    return [markdown_row(line) for line in (headings, marks, *rows)]


def mean_and_spread(values: Sequence[float], digits: int = 3) -> str:
    """Returns the mean, and the standard deviation where there are several values."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values):.{digits}f}"


def short(value: float) -> str:
    """Returns a share with three places and no zero before the point."""
    return f"{value:.3f}".removeprefix("0")


def filled(page: str, lines: str, mark: str) -> str:
    """Returns a page with these lines between `<!-- mark -->` and `<!-- end of mark -->`."""
    begin = f"<!-- {mark} -->"
    end = f"<!-- end of {mark} -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{lines}\n{end}{after}"
