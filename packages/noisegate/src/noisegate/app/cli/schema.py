"""`noisegate schema`: describe the columns. `noisegate split`: set test records aside.

A schema is public knowledge. There are three ways to one::

    schema init       drafts it from what is public             costs nothing
    schema discover   estimates it from the private records     costs a part of ε
    an editor         writes it from the documentation          costs nothing

and `schema check` shows what a file says. `init` is an entry point of the group
``noisegate.verbs.schema``, as a verb of another package would be.

A discovery is a release of its own: its ε is spent in addition to that of a later fit
to the same records. Its certificate lies beside the schema file, where the fit finds
it and states it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from noisegate.app.cli.console import (
    OUT,
    VerbGroup,
    announce_files,
    describe_images,
    print_json,
    say,
    show_progress,
    table,
    warn,
    warn_about_constraints,
)
from noisegate.app.cli.options import (
    Adjacency,
    Delta,
    Epsilon,
    Json,
    LedgerOption,
    Unit,
    expand_options,
)
from noisegate.atomic import new_file
from noisegate.errors import OptionError
from noisegate.registry import extensions

if TYPE_CHECKING:
    from noisegate.gate.discovery.schema_gate import Discovery, SchemaGate
    from noisegate.schema import Schema
    from noisegate.schema.linked.schema import LinkedSchema

_RESERVED_BYTES = 2**20
"""Room that the disk must have before anything is spent; a schema of thousands of
columns needs less."""
_MAX_COLUMNS_SHOWN = 500

app = Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    help="Describe the columns: public knowledge only.",
    rich_markup_mode="markdown",
)


for _name, _entry_point in extensions("noisegate.verbs.schema").items():
    app.command(_name)(_entry_point.load())


@dataclass(frozen=True, kw_only=True)
class DiscoverOptions:
    """What a discovery asks for beside its ε."""

    delta: Delta = 1e-5
    kinds: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=KIND,...",
            help="Kinds of columns, public knowledge; may be repeated.",
        ),
    ] = None
    columns: Annotated[
        Path | None,
        Option(
            help="Schema file, TOML, with what is public; bounds and levels may be "
            "left out."
        ),
    ] = None
    label: Annotated[
        str | None,
        Option(
            help="Column to be predicted from the others; every record has it, unless "
            "--columns says missing = true."
        ),
    ] = None
    adjacency: Adjacency = "add-remove"
    records: Annotated[
        int | None,
        Option(
            help="Approximate number of records, if publicly known; required, and "
            "exact, for replace-one."
        ),
    ] = None
    unit: Unit = "record"
    ledger: LedgerOption = None
    dataset: Annotated[
        str | None, Option(help="Name of the data set in the ledger.")
    ] = None
    show_values: Annotated[
        bool, Option("--show-values", help="Let error messages quote private values.")
    ] = False


@app.command("discover")
@expand_options
def discover(
    data: Annotated[
        Path,
        Argument(help="Private records: CSV, Parquet or another table, or a folder."),
    ],
    epsilon: Epsilon,
    out: Annotated[
        Path,
        Option(
            "--out",
            "-o",
            help="Schema file to write; its certificate is written beside it.",
        ),
    ],
    options: DiscoverOptions,
    force: Annotated[
        bool, Option("--force", help="Replace an existing schema file.")
    ] = False,
    price: Annotated[
        bool,
        Option("--price", help="Show what it would cost, and stop; no record is read."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Estimate the schema of private records with part of their privacy budget: bounds and levels, with noise.

    Names and kinds of the columns are taken as public. Kinds: continuous, integer,
    date, datetime, datetime-utc, categorical, boolean, ignore. They must be given, and
    are never taken from the types of a file.

    Example: `noisegate schema discover private.csv --epsilon 0.1
    --kinds "age=integer,job=categorical" -o schema.toml`
    """
    from noisegate.app.runs.work import hold_signals
    from noisegate.gate.discovery.schema_gate import SchemaGate
    from noisegate.ledger.ledger import Ledger
    from noisegate.privacy.schema_certificate import certificate_path

    kinds = _parse_kinds(options.kinds or [])
    ledger = None if options.dataset is None else Ledger(options.ledger)
    certificate_file = certificate_path(out)
    announce_files(data)
    # Signals are held back, so that none comes between the noise and the files.
    with hold_signals() as may_stop:
        gate = SchemaGate(
            data,
            epsilon=epsilon,
            delta=options.delta,
            kinds=kinds,
            columns=options.columns,
            label=options.label,
            adjacency=options.adjacency,
            records=options.records,
            unit=options.unit,
            ledger=ledger,
            dataset=options.dataset,
            show_values=options.show_values,
            progress=lambda _: may_stop(),
        )
        # The gate has checked the options by now, and has read no record.
        if price:
            _show_price(gate, as_json)
            return
        discovery = _discover_into_files(gate, out, certificate_file, force=force)
    column_count = _column_count(discovery)
    if as_json:
        print_json(
            {
                "schema": str(out),
                "columns": column_count,
                "certificate": discovery.certificate.to_json(),
                "doubts": dict(discovery.doubts),
            }
        )
        return
    _show_columns(f"{out}, as estimated", discovery.schema)
    _show_notes(discovery)
    OUT.print(f"[green]Done[/green]: {discovery.certificate}", soft_wrap=True)
    OUT.print(
        f"Schema: {out}, {column_count} columns; certificate: {certificate_file}. "
        "Review the schema before you use it."
    )


def _column_count(discovery: Discovery) -> int:
    """Returns how many columns a discovered schema describes.

    It is counted in the file: a schema without any column cannot be read.
    """
    return discovery.toml.count("\n[columns.")


def _show_notes(discovery: Discovery) -> None:
    """Prints each note once, with all columns that it is about.

    A note is what the schema file says of a column, too: what was merged, or how many
    records lack a value. One that is a doubt is a warning: it is to be examined before
    the schema is used.
    """
    columns_by_note: dict[str, list[str]] = {}
    for column, note in discovery.notes.items():
        columns_by_note.setdefault(note, []).append(column)
    for note, columns in columns_by_note.items():
        text = f"{', '.join(columns)}: {note}."
        is_doubt = columns[0] in discovery.doubts
        if is_doubt:
            warn(text)
        else:
            say(text)


def _show_price(gate: SchemaGate, as_json: bool) -> None:
    """Prints what a discovery would cost, and how exact it would be; reads no record.

    Args:
        gate: The gate before the records.
        as_json: Whether to print JSON for programs instead of text for people.
    """
    budget = gate.plan.budget
    if as_json:
        print_json(
            {
                "price": {
                    "epsilon": budget.epsilon,
                    "delta": budget.delta,
                    "adjacency": budget.adjacency.value,
                    "noise_records": gate.noise_records,
                    "threshold_records": gate.threshold_records,
                }
            }
        )
        return
    OUT.print(
        f"Bounds and levels for ε = {budget.epsilon:g}, δ = {budget.delta:g}, "
        f"{budget.adjacency.value}."
    )
    OUT.print(_describe_noise(gate))


def _describe_noise(gate: SchemaGate) -> str:
    """Returns in words how exact a discovery is: two standard deviations of a count.

    As in "Each count gets noise of about ±28 records; a level needs about 87 records to
    be seen."
    """
    sentence = f"Each count gets noise of about ±{2 * gate.noise_records:.0f} records"
    threshold = gate.threshold_records
    if threshold is not None:
        sentence += f"; a level needs about {threshold:.0f} records to be seen"
    return f"{sentence}."


def _discover_into_files(
    gate: SchemaGate, out: Path, certificate_file: Path, *, force: bool
) -> Discovery:
    """Estimates a schema, and writes it with its certificate.

    Room for both files is reserved before anything is spent. If they cannot be written
    all the same, they are printed, since another discovery would cost again.

    Args:
        gate: The gate before the records.
        out: Schema file.
        certificate_file: Certificate beside it.
        force: Whether to replace files that are there.

    Returns:
        The discovery, which is on disk by then.

    Raises:
        OptionError: if a file is there already, or no column exceeds the noise.
    """
    from noisegate.privacy.schema_certificate import certificate_text

    discovery: Discovery | None = None
    try:
        with (
            new_file(out, force=force, room=_RESERVED_BYTES) as schema_path,
            new_file(
                certificate_file, force=force, room=_RESERVED_BYTES
            ) as certificate_path,
        ):
            say(_describe_noise(gate))
            if gate.dataset is None:
                warn(
                    "no --dataset: the cost is in no ledger. Costs of several runs on "
                    "the same records add up."
                )
            with show_progress("Reading records", None):
                discovery = gate.discover()
            schema_path.write_bytes(discovery.toml.encode())
            certificate_path.write_bytes(
                certificate_text(discovery.certificate).encode()
            )
    except BaseException:
        if discovery is not None:
            warn(
                "the budget is spent, but the schema could not be written. Keep "
                "the output below: another run costs again."
            )
            print(f"# {out}\n{discovery.toml}")
            print(f"# {certificate_file}\n{certificate_text(discovery.certificate)}")
        raise
    if _column_count(discovery) == 0:
        raise OptionError(
            f"--epsilon {discovery.certificate.epsilon:g} was spent, and no column "
            f"could be distinguished from the noise: {out} describes none and "
            f"gives the reasons. Its certificate is {certificate_file}. More "
            "records show more, and so does a larger --epsilon, at a further cost; "
            "put publicly known bounds and levels into a --columns file."
        )
    return discovery


def _parse_kinds(options: list[str]) -> dict[str, str]:
    """Reads the kinds of columns.

    Args:
        options: Values of --kinds, each NAME=KIND,...; a name may have equals signs.

    Returns:
        Kinds by column: of ``["age=integer,job=categorical"]`` they are
        ``{"age": "integer", "job": "categorical"}``.

    Raises:
        OptionError: if one is no NAME=KIND, or a column is named twice.
    """
    pairs = [
        pair.rpartition("=")
        for option in options
        for pair in option.split(",")
        if pair.strip()
    ]
    for name, equals, kind in pairs:
        if not equals or not name.strip():
            raise OptionError(
                f"--kinds {kind!r} must look like NAME=KIND, for instance --kinds "
                "age=integer,sex=categorical; a name with a comma goes into a "
                "--columns file."
            )
    kinds: dict[str, str] = {}
    for name, _, kind in pairs:
        column = name.strip()
        if column in kinds:
            raise OptionError(f"--kinds names {column!r} twice; give one kind for it.")
        kinds[column] = kind.strip()
    return kinds


@app.command("check")
def check(
    path: Annotated[Path, Argument(metavar="SCHEMA", help="Schema file, TOML.")],
    as_json: Json = False,
) -> None:
    """Check a schema and show its contents."""
    from noisegate.schema.satisfiable import satisfied_fraction
    from noisegate.schema.schema import is_linked, read_schema

    schema = read_schema(path)
    if is_linked(schema):
        # The records of a link hold the columns of the parent, too.
        for link in schema.links:
            warn_about_constraints(link.records)
        if as_json:
            _print_schema(schema, satisfied_share=None)
        else:
            _show_linked(schema)
        return

    warn_about_constraints(schema)
    satisfied_share = satisfied_fraction(
        schema.constraints, schema.file_layout, schema.missing_values
    )
    if as_json:
        _print_schema(schema, satisfied_share)
        return
    if schema.images is not None:
        description = describe_images(schema)
        OUT.print(f"{path}: {description}. The schema is valid.", markup=False)
        return
    _show_columns(str(path), schema)
    if schema.constraints:
        OUT.print(
            "Of records drawn evenly within the bounds, about "
            f"{satisfied_share:.1%} satisfy all of them."
        )
    OUT.print("The schema is valid.")


def _print_schema(schema: Schema | LinkedSchema, satisfied_share: float | None) -> None:
    """Prints a schema as JSON.

    Args:
        schema: The schema.
        satisfied_share: Share of evenly drawn records that meet all constraints; None
            for linked tables.
    """
    print_json(
        {
            "ok": True,
            "digest": schema.digest(),
            "schema": schema.to_json(),
            "kept_share": satisfied_share,
        }
    )


def _show_linked(schema: LinkedSchema) -> None:
    """Prints the columns of each linked table, and how it is linked.

    Args:
        schema: The schema of all tables; what holds between tables comes last.
    """
    from noisegate.schema.linked.schema import describe_link

    for linked_table in schema.tables:
        _show_columns(linked_table.name, linked_table.schema)
        OUT.print(f"{describe_link(linked_table)}\n", markup=False)
    for relation in schema.relations:
        OUT.print(f"Relation: {relation}", markup=False)
    for constraint in schema.constraints:
        OUT.print(f"Constraint: {constraint}", markup=False)
    OUT.print(
        f"The schema is valid. Privacy unit: a record of {schema.root.name} with all "
        "linked records."
    )


def _show_columns(title: str, schema: Schema) -> None:
    """Prints a table of the columns, and the relations and constraints below it.

    Args:
        title: Of the table.
        schema: The schema of one table; of many columns the first 500 are shown.
    """
    from noisegate.schema.columns import CARD_HEADINGS, card_row

    shown_columns = schema.columns[:_MAX_COLUMNS_SHOWN]
    rows = [card_row(column, schema.label, schema.weights) for column in shown_columns]
    OUT.print(table(title, dict.fromkeys(CARD_HEADINGS, "left"), rows))
    hidden_count = len(schema.columns) - len(shown_columns)
    if hidden_count:
        OUT.print(f"... and {hidden_count:,} more columns; --json shows all.")
    if schema.file.description:
        OUT.print(f"Text files: {schema.file.description}", markup=False)
    for relation in schema.relations:
        OUT.print(f"Relation: {relation}", markup=False)
    for constraint in schema.constraints:
        OUT.print(f"Constraint: {constraint}", markup=False)


def split_command(
    data: Annotated[Path, Argument(help="Private records: one file.")],
    test: Annotated[float, Option(help="Share of the records to hold out.")] = 0.2,
    unit_column: Annotated[
        str | None,
        Option(
            help="Column that identifies the person: all records of one person stay "
            "together."
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        Option(
            help="Schema whose [file] says how a text file is written, or which sheet of "
            "a workbook is meant."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Split records into NAME-train, for the fit, and NAME-test, for evaluation.

    Both files are as private as the original. They are CSV or Parquet as it is, and
    Parquet for any other kind, such as a workbook. The split is random; no other record
    influences where a record goes.

    Example: `noisegate split patients.csv --test 0.2`
    """
    from noisegate.sources.split import split_records

    train_path, test_path = split_records(
        data, test, unit_column=unit_column, schema=schema
    )
    if as_json:
        print_json({"train": str(train_path), "test": str(test_path)})
        return
    OUT.print(
        f"Fit to {train_path}; compare with {test_path}, as in: noisegate report model "
        f"-o pages --test {test_path}"
    )
