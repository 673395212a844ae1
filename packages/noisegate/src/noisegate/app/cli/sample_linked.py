"""Synthetic records of linked tables, written into a folder with a file for each."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from noisegate.app.cli.console import print_json, say, show_progress, warn
from noisegate.atomic import new_folder
from noisegate.errors import OptionError


def sample_linked(
    model: Path,
    n: int,
    out: Path | None,
    *,
    seed: int | None,
    where: list[str] | None,
    conditions: Mapping[str, Any],
    as_json: bool,
    refused: Mapping[str, Any],
) -> None:
    """Writes synthetic records of the first table, with all that belongs to them, into a new folder of CSV files.

    They are Parquet where the folder is called so, as in tables.parquet.
    """
    from noisegate.models.linked.model import LinkedModel, describe_dropped
    from noisegate.models.output.sample_file import table_writer

    given = [name for name, value in refused.items() if value]
    if given or out is None:
        says = f"{given[0] if given else '--package'} is of one table, and {model} makes linked ones"
        raise OptionError(f"{says}; leave it out, and give --out FOLDER.")
    if out.suffix == ".csv":
        raise OptionError(
            f"--out {out}: linked tables are written into a folder, a file for each; give its name."
        )
    made = LinkedModel.load(model)
    made.batches(0, where=conditions)  # what cannot be is said before there is a folder
    ending = ".parquet" if out.suffix == ".parquet" else ".csv"
    rows = dict.fromkeys(made.schema.names, 0)
    dropped: dict[str, int] = {}
    with new_folder(out) as folder, ExitStack() as files:
        writers = {
            table.name: files.enter_context(
                table_writer(folder / f"{table.name}{ending}", table.synthetic())
            )
            for table in made.schema.tables
        }
        progress = files.enter_context(show_progress("Sampling", n))
        for batch in made.batches(n, seed=seed, where=conditions, dropped=dropped):
            for name, part in batch.items():
                writers[name](part)
                rows[name] += part.num_rows
            progress(rows[made.schema.root.name], "")
    if any(dropped.values()):
        warn(describe_dropped(dropped))
    if as_json:
        told = {
            "records": n,
            "out": str(out),
            "seed": seed,
            "where": where or [],
            "even": None,
            "tables": rows,
        }
        print_json(told | ({"dropped": dropped} if any(dropped.values()) else {}))
        return
    written = ", ".join(f"{count:,} of {name}" for name, count in rows.items())
    say(
        f"Wrote synthetic records to {out}: {written}. Share {model / 'certificate.md'} with them."
    )
