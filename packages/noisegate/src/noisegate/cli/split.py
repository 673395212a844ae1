"""`noisegate split`: set test records aside before anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisegate.cli.console import OUT, print_json
from noisegate.cli.options import Json


def split_command(
    data: Annotated[Path, typer.Argument(help="Private records: one CSV or Parquet file.")],
    test: Annotated[float, typer.Option(help="Share of the records to set aside.")] = 0.2,
    unit_column: Annotated[
        str | None, typer.Option(help="Column that identifies the person: all records of one person stay together.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set test records aside, into NAME-train and NAME-test: fit to the first, compare the copy with the second.

    Both files are as private as the original. The split is random; no other record influences where a record goes.

    Example: `noisegate split patients.csv --test 0.2`
    """
    from noisegate.data.split import split_records

    train, held_out = split_records(data, test, unit_column=unit_column)
    if as_json:
        print_json({"train": str(train), "test": str(held_out)})
        return
    OUT.print(f"Fit to {train}; compare with {held_out}, as in: noisegate report model -o pages --test {held_out}")
