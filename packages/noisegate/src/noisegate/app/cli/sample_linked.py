"""Synthetic records of linked tables, written into a folder with a file for each.

`noisegate sample model -n 10000 -o synthetic` draws 10,000 records of the first table,
and for each all that belongs to it::

    synthetic/patients.csv    10,000 records
    synthetic/visits.csv      as many as these patients have
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from noisegate.app.cli.console import print_json, say, show_progress, warn
from noisegate.app.cli.sample_files import Conditions
from noisegate.atomic import new_folder
from noisegate.errors import OptionError


def sample_linked(
    model: Path,
    n: int,
    out: Path,
    *,
    seed: int | None,
    conditions: Conditions,
    where: list[str],
    as_json: bool,
) -> None:
    """Writes synthetic records of the first table, with all that belongs to them.

    Args:
        model: Folder of a model of linked tables.
        n: Number of records of the first table.
        out: New folder. It gets a CSV file for each table, called like it; Parquet
            files if the folder is called so, as in tables.parquet.
        seed: Seed for the same records again; None for others each time.
        conditions: What columns of the first table shall be.
        where: The same as it was typed.
        as_json: Whether to print JSON for programs instead of text for people.

    Raises:
        OptionError: if there can be no such records, or the folder cannot be written.
    """
    from noisegate.models.linked.model import LinkedModel, describe_dropped
    from noisegate.models.output.sample_file import table_writer

    if out.suffix == ".csv":
        raise OptionError(
            f"--out {out}: linked tables are written into a folder, a file for each; "
            "give its name."
        )
    linked_model = LinkedModel.load(model)
    # Refuses impossible conditions before there is a folder.
    linked_model.batches(0, where=conditions)
    schema = linked_model.schema
    ending = ".parquet" if out.suffix == ".parquet" else ".csv"
    row_counts = dict.fromkeys(schema.names, 0)
    dropped_counts: dict[str, int] = {}
    with new_folder(out) as folder, ExitStack() as files:
        writers = {
            table.name: files.enter_context(
                table_writer(folder / f"{table.name}{ending}", table.synthetic())
            )
            for table in schema.tables
        }
        progress = files.enter_context(show_progress("Sampling", n))
        batches = linked_model.batches(
            n, seed=seed, where=conditions, dropped=dropped_counts
        )
        # A batch has some records of the first table with all that belongs to them.
        for batch in batches:
            for name, rows in batch.items():
                writers[name](rows)
                row_counts[name] += rows.num_rows
            progress(row_counts[schema.root.name], "")
    was_any_dropped = any(dropped_counts.values())
    if was_any_dropped:
        warn(describe_dropped(dropped_counts))
    if as_json:
        fields: dict[str, Any] = {
            "records": n,
            "out": str(out),
            "seed": seed,
            "where": where,
            "even": None,
            "tables": row_counts,
        }
        if was_any_dropped:
            fields["dropped"] = dropped_counts
        print_json(fields)
        return
    written = ", ".join(f"{count:,} of {name}" for name, count in row_counts.items())
    say(
        f"Wrote synthetic records to {out}: {written}. "
        f"Share {model / 'certificate.md'} with them."
    )
