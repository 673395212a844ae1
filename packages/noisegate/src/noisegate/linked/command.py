"""Linked tables on the command line: where their records lie, and synthetic ones in a folder with a file for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.atomic import new_folder
from noisegate.cli.console import print_json, say, steps
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.linked.schema import LinkedSchema
    from noisegate.schema import Schema


def records_at(schema: Schema | LinkedSchema, data: Sequence[str] | None, tables: Sequence[str] | None) -> Any:
    """Returns the path of the records; of linked tables a path for each, by name.

    Raises:
        UserError: if there are several paths for one table, or not exactly one for each of linked ones.
    """
    from noisegate.linked.schema import LinkedSchema
    from noisegate.linked.source import linked_parts

    if not isinstance(schema, LinkedSchema):
        if tables:
            raise OptionError(f"--table {tables[0]} is for linked tables, and the schema describes one table.")
        return one_place(data)
    named = _named(tables or ())
    if data and len(data) == 1 and Path(data[0]).is_dir() and Path(data[0]).name not in schema.names and not named:
        return linked_parts(data[0], schema)
    for path in data or ():
        name = Path(path).stem
        if name in named:
            raise OptionError(f"DATA {path}: there is another path for the table {name!r}, {named[name]}; give one.")
        named[name] = path
    return linked_parts(named, schema)


def one_place(data: Sequence[str] | None) -> str | None:
    """Returns the one path that is given, or None."""
    if data and len(data) > 1:
        raise OptionError(
            f"DATA: {len(data)} paths are given, and the schema describes one table; put its files into one folder, or "
            "give a schema of linked tables."
        )
    return data[0] if data else None


def _named(tables: Sequence[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for text in tables:
        name, equals, path = (part.strip() for part in text.partition("="))
        if not equals or not name or not path:
            raise OptionError(
                f"--table {text!r} must look like NAME=PATH, for instance --table visits=2024/visits.csv."
            )
        if name in named:
            raise OptionError(f"--table names {name!r} twice; give one path for it.")
        named[name] = path
    return named


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
    """Writes synthetic records of the first table, with all that belongs to them, into a new folder.

    Its files are CSV; Parquet where the folder is called so, as in tables.parquet.
    """
    from noisegate.linked.model import LinkedModel
    from noisegate.models.output.formats import table_writer

    given = [name for name, value in refused.items() if value]
    if given or out is None:
        raise OptionError(
            f"{given[0] if given else '--package'} is of one table, and {model} makes linked ones; leave it out, and "
            "give --out FOLDER."
        )
    if out.suffix == ".csv":
        raise OptionError(f"--out {out}: linked tables are written into a folder, a file for each; give its name.")
    made = LinkedModel.load(model)
    made.batches(0, where=conditions)  # what cannot be is said before there is a folder
    ending = ".parquet" if out.suffix == ".parquet" else ".csv"
    rows = dict.fromkeys(made.schema.names, 0)
    with new_folder(out) as folder, ExitStack() as files:
        writers = {
            table.name: files.enter_context(table_writer(folder / f"{table.name}{ending}", table.synthetic()))
            for table in made.schema.tables
        }
        progress = files.enter_context(steps("Sampling", n))
        for batch in made.batches(n, seed=seed, where=conditions):
            for name, part in batch.items():
                writers[name](part)
                rows[name] += part.num_rows
            progress(rows[made.schema.root.name], "")
    if as_json:
        told = {"records": n, "out": str(out), "seed": seed, "where": where or [], "even": None, "tables": rows}
        print_json(told)
        return
    written = ", ".join(f"{count:,} of {name}" for name, count in rows.items())
    say(f"Wrote synthetic records to {out}: {written}. Hand {model / 'certificate.md'} over with them.")
