"""`noisegate schema init`: draft a schema of what is public: records, a data dictionary, names, the form of images."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from noisegate.app.cli.console import (
    announce_files,
    describe_images,
    print_json,
    say,
    show_progress,
    warn,
)
from noisegate.app.cli.options import ImageOptions, Json, expand_options
from noisegate.atomic import new_file
from noisegate.errors import OptionError

_KEEP = "take out what need not hold for other records, and keep it with the data."


@dataclass(frozen=True, kw_only=True)
class InitOptions(ImageOptions):
    """What images are described by, or which column of a table is the label."""

    label: Annotated[
        str | None,
        typer.Option(
            help="Column to be predicted from the others; of images the label's name."
        ),
    ] = None


@expand_options
def init(
    out: Annotated[Path, typer.Option("--out", "-o", help="Schema file to write.")],
    options: InitOptions,
    public: Annotated[
        list[Path] | None,
        typer.Argument(
            help="CSV or Parquet file that is PUBLIC: its bounds and levels are copied. Several are linked tables, one "
            "file each, called like them."
        ),
    ] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            help="Data dictionary instead of a file of records: a code book (CSV or Excel), one of REDCap, a "
            "Frictionless Table Schema or datapackage.json, or CSVW metadata."
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="With --dictionary: the sheet, resource or table, where there are several."
        ),
    ] = None,
    names_of: Annotated[
        Path | None,
        typer.Option(
            help="Private CSV or Parquet file: its columns are listed, for you to fill in kinds. No record is copied."
        ),
    ] = None,
    images: Annotated[
        bool,
        typer.Option(
            "--images",
            help="Describe images by the options below, instead of a table by a file.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Draft a schema from a file that you declare public. Never use it on private records: bounds and levels leak.

    A large enough file also shows on which steps numbers stand, values that many records have, and rules that all of
    its records keep to. They are written with the reason, for you to keep or take out. What no model should see, such
    as identifiers and free text, is ignored, with the reason.

    Example: `noisegate schema init codebook_sample.csv -o schema.toml --label diagnosis`

    Linked tables: `noisegate schema init patients.csv visits.csv -o clinic.toml`

    From a data dictionary: `noisegate schema init --dictionary codebook.xlsx -o schema.toml`

    Names alone, to fill in kinds: `noisegate schema init --names-of private.csv -o columns.toml`

    Images: `noisegate schema init --images --size 28 --channels 1 --classes 10 -o images.toml`
    """
    sources = {
        "PUBLIC": public or None,
        "--dictionary": dictionary,
        "--names-of": names_of,
        "--images": images or None,
    }
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        cure = (
            "give one of them"
            if not public
            else f"leave {' '.join(map(str, public))} out"
        )
        raise OptionError(f"{' and '.join(given)} each describe the records; {cure}.")
    of_images = replace(options, label=None)
    if not images and of_images.specified():
        raise OptionError(
            f"{of_images.as_typed()} describes images; add --images, or leave it out."
        )
    if table is not None and dictionary is None:
        raise OptionError(
            f"--table {table!r} chooses a part of a --dictionary; give one, or leave it out."
        )
    if images:
        described = options.to_schema()
        _write(out, described.dumps())
        say(f"Wrote {out}: {describe_images(described)}. Keep it with the data.")
        told = {"columns": len(described.columns), "constraints": [], "remarks": []}
    elif dictionary is not None:
        told = _of_dictionary(dictionary, table, options.label, out)
    elif names_of is not None:
        told = _of_names(names_of, options.label, out)
    elif public and len(public) > 1:
        told = _of_linked(public, options.label, out)
    elif public:
        told = _of_records(public[0], options.label, out)
    else:
        raise OptionError(
            "PUBLIC is missing: a CSV or Parquet file that is public, whose bounds and levels are copied. For a data "
            "dictionary there is --dictionary, for images --images, and for names alone --names-of."
        )
    if as_json:
        print_json({"schema": str(out), **told})


def _of_records(public: Path, label: str | None, out: Path) -> dict[str, Any]:
    from noisegate.app.drafts.draft import draft

    with new_file(out) as path:
        announce_files(public)
        with show_progress("Reading records", None):
            found = draft(public, label=label)
        path.write_bytes(found.toml().encode())
    _warn_about_copies(f"{public}")
    schema, rules = found.schema, found.rules
    drafted = (
        f", {len(rules.constraints)} constraints that all of its records keep to"
        if rules.constraints
        else ""
    )
    note = f"Read it, comments included, widen what is too narrow, {_KEEP}"
    say(
        f"Wrote {out}: {len(schema.columns)} columns{_left_out(found.ignored)}{drafted}. {note}"
    )
    told = {
        "constraints": [str(one) for one in rules.constraints],
        "remarks": list(rules.remarks),
    }
    return {"columns": len(schema.columns), "ignored": found.ignored, **told}


def _of_linked(public: list[Path], label: str | None, out: Path) -> dict[str, Any]:
    from noisegate.app.drafts.linked import draft_linked, table_names

    if label is not None:
        cure = "write it into its table."
        raise OptionError(
            f"--label {label}: is of one table, and {len(public)} files are given; {cure}"
        )
    with new_file(out) as path:
        with show_progress("Reading records", None):
            found = draft_linked(table_names(public))
        path.write_bytes(found.toml().encode())
    _warn_about_copies(", ".join(map(str, public)), "all of them")
    for name, link in found.links.items():
        say(f"{name} is linked to its parent {link.parent}: {link.why}.")
    remarks = [
        f"{name}.{text}" for name, texts in found.remarks.items() for text in texts
    ]
    for text in remarks:
        say(f"- {text}.")
    tables = found.schema.tables
    columns, left_out = (
        sum(len(table.schema.columns) for table in tables),
        _left_out(found.ignored),
    )
    say(
        f"Wrote {out}: {len(tables)} tables, {columns} columns{left_out}. A unit of privacy is a record of "
        f"{found.schema.root.name} with all linked ones. Read it, comments included, widen what is too narrow, {_KEEP}"
    )
    rules = [
        f"{table.name}: {rule}" for table in tables for rule in table.schema.constraints
    ]
    told = {
        "constraints": [*rules, *map(str, found.schema.constraints)],
        "remarks": remarks,
    }
    links = {
        name: {"parent": link.parent, "why": link.why}
        for name, link in found.links.items()
    }
    return {"columns": columns, "ignored": found.ignored, "links": links, **told}


def _warn_about_copies(files: str, what: str = "that file") -> None:
    warn(
        f"this schema copies bounds and levels from {files}; it is safe only because you declare {what} public."
    )


def _of_dictionary(
    file: Path, table: str | None, label: str | None, out: Path
) -> dict[str, Any]:
    from noisegate.app.drafts.dictionaries import read_dictionary
    from noisegate.schema.layout import list_names

    found = read_dictionary(file, table=table, label=label)
    _write(out, found.toml())
    described = len(found.entries) - len(found.ignored)
    say(
        f"Wrote {out} from {file}, a {found.kind}: {described} columns{_left_out(found.ignored)}. Read it through."
    )
    if found.open:
        say(
            f"Still to state, from public knowledge, for {len(found.open)} of them: {list_names(found.open, 12)}. "
            f"Each has empty comments for it in {out}. What you leave open can be estimated: "
            f"noisegate schema discover DATA --columns {out} --epsilon 0.5 --records ABOUT_HOW_MANY -o discovered.toml"
        )
    else:
        say(f"Next: noisegate schema check {out}")
    return {
        "kind": found.kind,
        "columns": described,
        "ignored": found.ignored,
        "open": list(found.open),
    }


def _of_names(file: Path, label: str | None, out: Path) -> dict[str, Any]:
    from noisegate.gate.discovery.partial import KINDS
    from noisegate.gate.discovery.raw import columns_file

    text, names = columns_file(file, label=label)
    _write(out, text)
    say(f"Wrote {out}: the names of {len(names)} columns, which are taken as public.")
    say(
        f"Fill in the kind of each, one of {', '.join(KINDS)}, and bounds and levels if known."
    )
    say(
        f"Next: noisegate schema discover {file} --columns {out} --epsilon 0.5 --records ABOUT_HOW_MANY -o schema.toml"
    )
    return {"columns": len(names), "open": list(names)}


def _write(out: Path, text: str) -> None:
    with new_file(out) as path:
        path.write_bytes(text.encode())


def _left_out(ignored: Mapping[str, str]) -> str:
    for reason in ignored.values():
        say(f"- {reason}.")
    return (
        f", {len(ignored)} more {'are' if len(ignored) > 1 else 'is'} ignored"
        if ignored
        else ""
    )
