"""`noisegate schema`: describe the columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

_ROOM = (
    2**20
)  # bytes that the disk must have before anything is spent: a schema of thousands of columns needs fewer
_MOST_SHOWN = 500

app = Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    help="Describe the columns: public knowledge only.",
    rich_markup_mode="markdown",
)


# A way to come by a schema is a verb of this group, as of a package that drafts one.
for _name, _point in extensions("noisegate.verbs.schema").items():
    app.command(_name)(_point.load())


@dataclass(frozen=True, kw_only=True)
class DiscoverOptions:
    """What a discovery is told beside its price."""

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
            help="Schema file, TOML, with what is public; bounds and levels may be left out."
        ),
    ] = None
    label: Annotated[
        str | None,
        Option(
            help="Column to be predicted from the others; every record has it, unless --columns says missing = true."
        ),
    ] = None
    adjacency: Adjacency = "add-remove"
    records: Annotated[
        int | None,
        Option(
            help="Number of records if publicly known, about; exact, and needed, for replace-one."
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
        Argument(help="Private records: CSV or Parquet file, or a folder of them."),
    ],
    epsilon: Epsilon,
    out: Annotated[
        Path,
        Option(
            "--out",
            "-o",
            help="Schema file to write; its certificate is put beside it.",
        ),
    ],
    options: DiscoverOptions,
    force: Annotated[
        bool, Option("--force", help="Replace the schema file if there is one.")
    ] = False,
    price: Annotated[
        bool,
        Option("--price", help="Show what it would cost, and stop; no record is read."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Estimate the schema of private records with part of their privacy budget: bounds and levels, with noise.

    Names and kinds of the columns are taken as public. Kinds: continuous, integer, date, datetime, datetime-utc,
    categorical, boolean, ignore. They are given, and never taken from the types of a file.

    Example: `noisegate schema discover private.csv --epsilon 0.1 --kinds "age=integer,job=categorical" -o schema.toml`
    """
    from noisegate.app.runs.work import held
    from noisegate.gate.discovery.schema_gate import SchemaGate
    from noisegate.ledger.ledger import Ledger
    from noisegate.privacy.schema_certificate import certificate_path

    told: dict[str, Any] = vars(options) | {"kinds": _kinds(options.kinds or [])}
    told["ledger"] = Ledger(options.ledger) if options.dataset is not None else None
    beside = certificate_path(out)
    announce_files(data)
    with held() as may_stop:
        gate = SchemaGate(data, epsilon=epsilon, **told, progress=lambda _: may_stop())
        if price:
            _show_price(gate, as_json)
            return
        found = _bought(gate, out, beside, force=force)
    described = found.toml.count("\n[columns.")
    if as_json:
        made = {
            "certificate": found.certificate.to_json(),
            "doubts": dict(found.doubts),
        }
        print_json({"schema": str(out), "columns": described, **made})
        return
    _show_columns(f"{out}, as estimated", found.schema)
    for note in dict.fromkeys(found.notes.values()):
        names = [name for name, said in found.notes.items() if said == note]
        (warn if names[0] in found.doubts else say)(f"{', '.join(names)}: {note}.")
    OUT.print(f"[green]Done[/green]: {found.certificate}", soft_wrap=True)
    OUT.print(
        f"Schema: {out}, {described} columns; certificate: {beside}. Read the schema through, then use it."
    )


def _show_price(gate: SchemaGate, as_json: bool) -> None:
    budget = gate.plan.budget
    if as_json:
        noise = {
            "noise_records": gate.plan.noise_records,
            "threshold_records": gate.plan.threshold_records,
        }
        asked = {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "adjacency": budget.adjacency.value,
        }
        print_json({"price": {**asked, **noise}})
        return
    OUT.print(
        f"Bounds and levels for ε = {budget.epsilon:g}, δ = {budget.delta:g}, {budget.adjacency.value}."
    )
    OUT.print(_noise(gate))


def _noise(gate: SchemaGate) -> str:
    least = gate.plan.threshold_records
    seen = (
        "" if least is None else f"; a level needs about {least:.0f} records to be seen"
    )
    return f"Each count gets noise of about ±{2 * gate.plan.noise_records:.0f} records{seen}."


def _bought(gate: SchemaGate, out: Path, beside: Path, *, force: bool) -> Discovery:
    """Returns the discovery, which is on disk by then; a signal before the first noise stops it, at no cost."""
    from noisegate.privacy.schema_certificate import certificate_text

    found: Discovery | None = None
    try:
        with (
            new_file(out, force=force, room=_ROOM) as path,
            new_file(beside, force=force, room=_ROOM) as proof,
        ):
            say(_noise(gate))
            if gate.dataset is None:
                warn(
                    "no --dataset: the cost is in no ledger. Costs of several runs on the same records add up."
                )
            with show_progress("Reading records", None):
                found = gate.discover()
            path.write_bytes(found.toml.encode())
            proof.write_bytes(certificate_text(found.certificate).encode())
    except BaseException:
        if found is not None:
            warn(
                "the schema is paid for and could not be written. Keep what is printed here: another run costs again."
            )
            for name, text in (
                (out, found.toml),
                (beside, certificate_text(found.certificate)),
            ):
                print(f"# {name}\n{text}")
        raise
    if not found.toml.count("\n[columns."):
        raise OptionError(
            f"--epsilon {found.certificate.epsilon:g} was spent, and the noise hid every column: {out} describes none, "
            f"and says why. Its certificate is {beside}. More records or a larger --epsilon, which costs on top, show "
            "more; what is publicly known goes into a --columns file."
        )
    return found


def _kinds(options: list[str]) -> dict[str, str]:
    pairs = [
        pair.rpartition("=")
        for option in options
        for pair in option.split(",")
        if pair.strip()
    ]
    for name, equals, kind in pairs:
        if not equals or not name.strip():
            says = f"--kinds {kind!r} must look like NAME=KIND, for instance --kinds age=integer,sex=categorical"
            raise OptionError(
                f"{says}; a name with a comma goes into a --columns file."
            )
    names = [name.strip() for name, _, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"--kinds names {twice!r} twice; give one kind for it.")
    return {name: kind.strip() for name, (_, _, kind) in zip(names, pairs, strict=True)}


@app.command("check")
def check(
    path: Annotated[Path, Argument(metavar="SCHEMA", help="Schema file, TOML.")],
    as_json: Json = False,
) -> None:
    """Check a schema and show what it says."""
    from noisegate.schema.satisfiable import satisfied_fraction
    from noisegate.schema.schema import is_linked, read_schema

    schema = read_schema(path)
    linked = schema if is_linked(schema) else None
    for one in [schema] if linked is None else [link.records for link in linked.links]:
        warn_about_constraints(one)
    share = (
        None
        if linked
        else satisfied_fraction(
            schema.constraints, schema.layout, schema.missing_values
        )
    )
    if as_json:
        print_json(
            {
                "ok": True,
                "digest": schema.digest(),
                "schema": schema.to_json(),
                "kept_share": share,
            }
        )
    elif linked:
        _show_linked(linked)
    elif schema.images is not None:
        OUT.print(
            f"{path}: {describe_images(schema)}. The schema is good.", markup=False
        )
    else:
        _show_columns(str(path), schema)
        if schema.constraints:
            OUT.print(
                f"Of records drawn evenly within the bounds, about {share:.1%} keep to all of them."
            )
        OUT.print("The schema is good.")


def _show_linked(schema: Any) -> None:
    from noisegate.schema.linked.schema import describe_link

    for one in schema.tables:
        _show_columns(one.name, one.schema)
        OUT.print(f"{describe_link(one)}\n", markup=False)
    for constraint in schema.constraints:
        OUT.print(f"Constraint: {constraint}", markup=False)
    OUT.print(
        f"The schema is valid. Privacy unit: a record of {schema.root.name} with all linked records."
    )


def _show_columns(title: str, schema: Schema) -> None:
    from noisegate.schema.columns import CARD_HEADINGS, card_row

    rows = [card_row(column, schema.label) for column in schema.columns[:_MOST_SHOWN]]
    OUT.print(table(title, dict.fromkeys(CARD_HEADINGS, "left"), rows))
    if len(schema.columns) > _MOST_SHOWN:
        OUT.print(
            f"... and {len(schema.columns) - _MOST_SHOWN:,} more columns; --json shows all."
        )
    for constraint in schema.constraints:
        OUT.print(f"Constraint: {constraint}", markup=False)


def split_command(
    data: Annotated[Path, Argument(help="Private records: one CSV or Parquet file.")],
    test: Annotated[float, Option(help="Share of the records to set aside.")] = 0.2,
    unit_column: Annotated[
        str | None,
        Option(
            help="Column that identifies the person: all records of one person stay together."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Set test records aside, into NAME-train and NAME-test: fit to the first, compare the copy with the second.

    Both files are as private as the original. The split is random; no other record influences where a record goes.

    Example: `noisegate split patients.csv --test 0.2`
    """
    from noisegate.sources.split import split_records

    train, held_out = split_records(data, test, unit_column=unit_column)
    if as_json:
        print_json({"train": str(train), "test": str(held_out)})
        return
    OUT.print(
        f"Fit to {train}; compare with {held_out}, as in: noisegate report model -o pages --test {held_out}"
    )
