"""`noisegate schema init`: drafts a schema file from what is public.

::

    PUBLIC.csv          ──► `draft.draft`            bounds, levels, rules: copied
    PUBLIC.csv ...      ──► `linked.draft_linked`    the same of linked tables
    --dictionary FILE   ──► `dictionaries`           what it states; the rest is open
    --names-of PRIVATE  ──► names alone              for the owner to fill in
    --images            ──► the options              size, channels, labels

Exactly one of them describes the records. Each way writes the file, tells people what
it holds, and returns the fields of `--json`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from noisegate.atomic import new_file, shown_path
from noisegate.errors import DataError, OptionError

# What to do with a schema that was drafted from records.
_ADVICE = (
    "Review it with its comments: widen bounds that are too narrow, remove rules "
    "that other records may break, and keep it with the data."
)
_MAX_OPEN_SHOWN = 12  # columns of which something is still to be stated


@dataclass(frozen=True, kw_only=True)
class InitOptions(ImageOptions):
    """What images are described by, or which column of a table is the label."""

    label: Annotated[
        str | None,
        typer.Option(
            help="Column to be predicted from the others; with --images, the name of "
            "the label."
        ),
    ] = None


@expand_options
def init(
    out: Annotated[Path, typer.Option("--out", "-o", help="Schema file to write.")],
    options: InitOptions,
    public: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Table that is PUBLIC (CSV, Parquet, a workbook, ...): its bounds and "
            "levels are copied. Several are linked tables, one file each, called like them."
        ),
    ] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            help="Data dictionary instead of a file of records: a code book (CSV or "
            "Excel), one of REDCap, a Frictionless Table Schema or datapackage.json, "
            "or CSVW metadata."
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="With --dictionary: the sheet, resource or table, where there are "
            "several."
        ),
    ] = None,
    names_of: Annotated[
        Path | None,
        typer.Option(
            help="Private table (CSV, Parquet, a workbook, ...): its columns are listed, "
            "for you to fill in kinds. No record is copied."
        ),
    ] = None,
    form: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file whose [file] says how the text file is written, or which "
            "sheet of a workbook is meant. Needed with --names-of, unless it has "
            "commas and is in UTF-8; for a public file it is usually detected."
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

    A large enough file also shows the steps of numbers, values that many records have,
    and rules that all of its records satisfy. They are written with the reason, for you
    to keep or remove. What no model should see, such as identifiers and free text, is
    ignored, with the reason.

    Example: `noisegate schema init codebook_sample.csv -o schema.toml --label diagnosis`

    Linked tables: `noisegate schema init patients.csv visits.csv -o clinic.toml`

    From a data dictionary: `noisegate schema init --dictionary codebook.xlsx -o schema.toml`

    Names alone, to fill in kinds: `noisegate schema init --names-of private.csv -o columns.toml`

    Images: `noisegate schema init --images --size 28 --channels 1 --classes 10 -o images.toml`
    """
    _check_single_source(
        public=public, dictionary=dictionary, names_of=names_of, images=images
    )
    image_options = replace(options, label=None)
    if not images and image_options.specified():
        raise OptionError(
            f"{image_options.as_typed()} describes images; add --images, or leave it "
            "out."
        )
    if table is not None and dictionary is None:
        raise OptionError(
            f"--table {table!r} chooses a part of a --dictionary; give one, or leave "
            "it out."
        )

    has_one_file = names_of is not None or (public is not None and len(public) == 1)
    if form is not None and not has_one_file:
        raise OptionError(
            f"--form {form} says how one file of records is written; give PUBLIC or "
            "--names-of, or leave it out."
        )

    if images:
        json_fields = _init_from_options(options, out)
    elif dictionary is not None:
        json_fields = _init_from_dictionary(dictionary, table, options.label, out)
    elif names_of is not None:
        json_fields = _init_from_names(names_of, form, options.label, out)
    elif public and len(public) > 1:
        json_fields = _init_from_linked_files(public, options.label, out)
    elif public:
        json_fields = _init_from_file(public[0], form, options.label, out)
    else:
        raise OptionError(
            "PUBLIC is missing: a table that is public, such as a CSV file, whose "
            "bounds and levels are copied. For a data dictionary there is --dictionary, for "
            "images --images, and for names alone --names-of."
        )
    if as_json:
        print_json({"schema": str(out), **json_fields})


def _check_single_source(
    *,
    public: list[Path] | None,
    dictionary: Path | None,
    names_of: Path | None,
    images: bool,
) -> None:
    """Requires that at most one argument or option describes the records."""
    is_given = {
        "PUBLIC": bool(public),
        "--dictionary": dictionary is not None,
        "--names-of": names_of is not None,
        "--images": images,
    }
    sources = [name for name, given in is_given.items() if given]
    if len(sources) > 1:
        cure = "give one of them"
        if public:
            cure = f"leave {' '.join(map(shown_path, public))} out"
        raise OptionError(f"{' and '.join(sources)} each describe the records; {cure}.")


def _init_from_options(options: InitOptions, out: Path) -> dict[str, Any]:
    """Writes the schema of images that options describe.

    Returns:
        The fields of `--json`.
    """
    schema = options.to_schema()
    _write(out, schema.dumps())
    say(f"Wrote {out}: {describe_images(schema)}. Keep it with the data.")
    return {"columns": len(schema.columns), "constraints": [], "remarks": []}


def _init_from_file(
    public: Path, form: Path | None, label: str | None, out: Path
) -> dict[str, Any]:
    """Drafts a schema from one public file.

    Args:
        public: The file, or a folder of files that are read as one table.
        form: A file whose `[file]` says how it is written; None to find it out.
        label: Name of the column to be predicted, or None.
        out: The schema file to write.

    Returns:
        The fields of `--json`.
    """
    from noisegate.app.drafts.draft import draft
    from noisegate.gate.discovery.partial import read_file_form

    stated_form = None if form is None else read_file_form(form).form
    with new_file(out) as path:
        announce_files(public)
        with show_progress("Reading records", None), _form_as_cure(form):
            drafted = draft(public, label=label, form=stated_form)
        path.write_bytes(drafted.toml().encode())
    _warn_about_copies(shown_path(public), declared="that file")

    _list_reasons(drafted.ignored)
    for remark in drafted.record_remarks:
        warn(remark)
    form_description = drafted.schema.file.description
    if form_description:
        say(
            f"[file] states how {shown_path(public)} is written ({form_description}); private "
            "files are read and copies are written in the same form."
        )
    column_count = len(drafted.schema.columns)
    relations = [str(one.relation) for one in drafted.rules.relations]
    constraints = drafted.rules.constraints
    contents = f"{column_count} columns{_ignored_count(drafted.ignored)}"
    if relations:
        words = "relations that hold" if len(relations) > 1 else "relation that holds"
        contents += f", {len(relations)} {words} by construction"
    if constraints:
        contents += f", {len(constraints)} constraints that all of its records satisfy"
    say(f"Wrote {out}: {contents}. {_ADVICE}")
    return {
        "columns": column_count,
        "ignored": drafted.ignored,
        "relations": relations,
        "constraints": [str(constraint) for constraint in constraints],
        "remarks": [*drafted.record_remarks, *drafted.rules.remarks],
    }


def _init_from_linked_files(
    public: list[Path], label: str | None, out: Path
) -> dict[str, Any]:
    """Drafts a schema of linked tables from public files.

    Args:
        public: One file for each table.
        label: Must be None; a label is of one table.
        out: The schema file to write.

    Returns:
        The fields of `--json`.
    """
    from noisegate.app.drafts.linked import draft_linked, table_names

    if label is not None:
        raise OptionError(
            f"--label {label}: applies to one table, and {len(public)} files are "
            "given; write it into its table."
        )
    with new_file(out) as path:
        with show_progress("Reading records", None):
            drafted = draft_linked(table_names(public))
        path.write_bytes(drafted.toml().encode())
    files = ", ".join(map(shown_path, public))
    _warn_about_copies(files, declared="all of them")

    for child, link in drafted.links.items():
        say(f"{child} is linked to its parent {link.parent}: {link.reason}.")
    remarks = [
        f"{table}.{remark}"
        for table, remarks_on_table in drafted.remarks.items()
        for remark in remarks_on_table
    ]
    for remark in remarks:
        say(f"- {remark}.")
    _list_reasons(drafted.ignored)
    for table, table_draft in drafted.drafts.items():
        for remark in table_draft.record_remarks:
            warn(f"{table}: {remark}")
    tables = drafted.schema.tables
    column_count = sum(len(table.schema.columns) for table in tables)
    say(
        f"Wrote {out}: {len(tables)} tables, {column_count} "
        f"columns{_ignored_count(drafted.ignored)}. The privacy unit is a record "
        f"of {drafted.schema.root.name} with all linked ones. {_ADVICE}"
    )
    constraints = [
        f"{table.name}: {constraint}"
        for table in tables
        for constraint in table.schema.constraints
    ]
    constraints += map(str, drafted.schema.constraints)
    return {
        "columns": column_count,
        "ignored": drafted.ignored,
        "links": {
            child: {"parent": link.parent, "why": link.reason}
            for child, link in drafted.links.items()
        },
        "constraints": constraints,
        "remarks": remarks,
    }


def _init_from_dictionary(
    file: Path, table: str | None, label: str | None, out: Path
) -> dict[str, Any]:
    """Drafts a schema from a data dictionary; no record is read.

    Args:
        file: The dictionary.
        table: Its sheet, resource or table, or None for the only one.
        label: Name of the column to be predicted, or None.
        out: The schema file to write.

    Returns:
        The fields of `--json`.
    """
    from noisegate.app.drafts.dictionaries import read_dictionary
    from noisegate.schema.layout import list_names

    dictionary = read_dictionary(file, table=table, label=label)
    _write(out, dictionary.toml())
    _list_reasons(dictionary.ignored)
    column_count = len(dictionary.entries) - len(dictionary.ignored)
    say(
        f"Wrote {out} from {file}, a {dictionary.kind}: {column_count} "
        f"columns{_ignored_count(dictionary.ignored)}. Review it."
    )
    open_names = dictionary.open
    if open_names:
        say(
            f"Still to state, from public knowledge, for {len(open_names)} of them: "
            f"{list_names(open_names, _MAX_OPEN_SHOWN)}. Each has empty comments for "
            f"it in {out}. What you leave open can be estimated: noisegate schema "
            f"discover DATA --columns {out} --epsilon 0.5 --records ABOUT_HOW_MANY "
            "-o discovered.toml"
        )
    else:
        say(f"Next: noisegate schema check {out}")
    return {
        "kind": dictionary.kind,
        "columns": column_count,
        "ignored": dictionary.ignored,
        "open": list(open_names),
    }


@contextmanager
def _form_as_cure(form: Path | None) -> Iterator[None]:
    """Adds to an error about the form of a file how to state it, where none was."""
    try:
        yield
    except DataError as error:
        if form is not None or "[file]" not in str(error):
            raise
        raise DataError(
            f"{error}\nPut these lines into a file of their own, and give it with "
            "--form FILE."
        ) from None


def _init_from_names(
    file: Path, form: Path | None, label: str | None, out: Path
) -> dict[str, Any]:
    """Lists the columns of a private file, for its owner to fill in their kinds.

    Args:
        file: The private file, of which nothing else is copied.
        form: A file whose `[file]` says how it is written; None for plain CSV.
        label: Name of the column to be predicted, or None.
        out: The schema file to write.

    Returns:
        The fields of `--json`.
    """
    from noisegate.gate.discovery.partial import KINDS, read_file_form
    from noisegate.gate.discovery.raw import columns_file
    from noisegate.schema.layout import list_names

    with _form_as_cure(form):
        text, names = columns_file(file, label=label, form=read_file_form(form).form)
    _write(out, text)
    say(
        f"Wrote {out}: the names of {len(names)} columns, which are taken as "
        f"public: {list_names(names, _MAX_OPEN_SHOWN)}. If this is a record "
        f"instead of a header, delete {out}."
    )
    say(
        f"Fill in the kind of each, one of {', '.join(KINDS)}, and bounds and levels "
        "if known."
    )
    say(
        f"Next: noisegate schema discover {shown_path(file)} --columns {out} "
        "--epsilon 0.5 --records ABOUT_HOW_MANY -o schema.toml"
    )
    return {"columns": len(names), "open": list(names)}


def _write(out: Path, text: str) -> None:
    """Writes a new file, whole or not at all."""
    with new_file(out) as path:
        path.write_bytes(text.encode())


def _warn_about_copies(files: str, *, declared: str) -> None:
    """Warns that a draft is safe only if its files are public, as was declared."""
    warn(
        f"this schema copies bounds and levels from {files}; it is safe only because "
        f"you declare {declared} public."
    )


def _list_reasons(ignored: Mapping[str, str]) -> None:
    """Says why each ignored column was left out."""
    for reason in ignored.values():
        say(f"- {reason}.")


def _ignored_count(ignored: Mapping[str, str]) -> str:
    """Returns how many columns are ignored, as the end of a list; "" for none."""
    if not ignored:
        return ""
    return f", {len(ignored)} more {'are' if len(ignored) > 1 else 'is'} ignored"
