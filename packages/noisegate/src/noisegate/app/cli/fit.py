"""`noisegate fit`: spend ε once, then fit as long as it takes.

One command starts a run in one of three ways::

    fit DATA --schema ... --epsilon ...   a new run             `start_run`
    fit --resume --out DIR                an interrupted run    `resume_run`
    fit DATA --stream / --continue        a period of a stream  `fit_next_period`

`ConsoleObserver` words what the run has to say for the command line, and `report_fit`
prints what it has made; `release` and `merge` use both too.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.app.cli.console import (
    ERR,
    OUT,
    announce_files,
    print_json,
    say,
    show_progress,
    show_verdict,
    warn,
    warn_about_constraints,
    warn_about_delta,
)
from noisegate.app.cli.options import (
    Address,
    EngineOption,
    FitOptions,
    Json,
    expand_options,
    parse_table_paths,
    required,
    select_engine,
    typed_setting,
)
from noisegate.app.cli.show_plan import show_plan
from noisegate.atomic import shown_path, without_password
from noisegate.errors import OptionError
from noisegate.progress import LOG, Tell, reading

if TYPE_CHECKING:
    from noisegate.app.runs.folder import Run, RunFolder
    from noisegate.gate.gate import Gate
    from noisegate.methods.method import Method
    from noisegate.models.checkpoint import FitSummary
    from noisegate.models.record_model import FittedModel
    from noisegate.privacy.plan import Plan
    from noisegate.privacy.release import Release

_DATA = "DATA, the private records,"
"""What messages call the argument of the private records."""
ShowValues = Annotated[
    bool, typer.Option("--show-values", help="Let errors quote private values.")
]


@expand_options
def fit_command(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model folder to make.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Private records: CSV, Parquet, JSON lines, Arrow, a workbook, a file of "
            "SPSS, Stata or SAS, a folder of these, or a table in a database, as "
            "postgresql://USER@HOST/DATABASE?table=TABLE, sqlite:///FILE or duckdb:///FILE. Private "
            "images: a folder of class folders or with labels.csv, Parquet with an "
            "image column, an .npz file, or MNIST's idx files on disk. Linked tables: "
            "a file or a folder for each, called like it, or one folder that holds "
            "these."
        ),
    ] = None,
    *,
    options: FitOptions,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME=PATH",
            help="A linked table whose name differs from its file name.",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Where to fit: auto, cpu, cuda or mps; pairwise computes on the CPU."
        ),
    ] = "auto",
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue an interrupted fit, at no further cost. DATA is read again "
            "if queries or steps remain.",
        ),
    ] = False,
    stream: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Plan of `plan --periods`; DATA is its first period."
        ),
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option(
            "--continue",
            metavar="DIR",
            help="Model of the period before; DATA is the next.",
        ),
    ] = None,
    withdrawn: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="With --continue: records that leave the stream."
        ),
    ] = None,
    engine: EngineOption = "local",
    address: Address = None,
    show_values: ShowValues = False,
    as_json: Json = False,
) -> None:
    """Fit a model to private records: the budget is charged once; later steps use the noisy results only.

    Example: `noisegate fit patients.csv --schema schema.toml --epsilon 1 --out model
    --dataset clinic-2026`

    Linked tables: `noisegate fit patients.csv visits.csv --schema clinic.toml
    --epsilon 1 --out model`

    Images: `noisegate fit scans/ --size 28 --channels 1 --classes 10 --epsilon 1
    --out model`, or with the same in a file: `noisegate fit scans/ --schema images.toml
    --epsilon 1 --out model`
    """
    from noisegate.app.runs.folder import RunFolder
    from noisegate.app.runs.work import resume_run, start_run

    start_time = time.monotonic()
    folder = RunFolder(
        out,
        observer=ConsoleObserver(options.request.method, as_json),
        log=options.request.log,
    )
    selected_engine = select_engine(engine, address)
    is_of_stream = stream is not None or after is not None or withdrawn is not None
    if resume:
        model = resume_run(
            folder,
            one_path(data),
            options=options.explicit_options(context),
            device=device,
            ledger=options.request.ledger,
            show_values=show_values,
            engine=selected_engine,
        )
    elif is_of_stream:
        path = required(one_path(data), _DATA)
        from noisegate.app.cli.streams import fit_next_period

        model = fit_next_period(
            context,
            path,
            folder,
            options,
            withdrawn=withdrawn,
            device=device,
            show_values=show_values,
            engine=selected_engine,
        )
    else:
        required(data or tables, _DATA)  # before the schema is read
        run = options.to_run()
        model = start_run(
            run,
            locate_records(run.schema, data, tables),
            folder,
            device=device,
            show_values=show_values,
            engine=selected_engine,
        )
    report_fit(model, out, time.monotonic() - start_time, as_json)


def locate_records(
    schema: Any, data: Sequence[str] | None, tables: Sequence[str] | None
) -> Any:
    """Returns the path of the private records, or of each linked table; reads nothing.

    Args:
        schema: A `Schema`, or a `LinkedSchema` for linked tables.
        data: Values of DATA.
        tables: Values of --table, each NAME=PATH.

    Returns:
        Of one table or of images the path, None if there is none. Of linked tables a
        mapping from each table of the schema to its path: that of --table, else the
        file or folder in DATA that is called like the table. So of the typed words
        ``patients.csv --table visits=2024/all.csv`` it is
        ``{"patients": "patients.csv", "visits": "2024/all.csv"}``.

    Raises:
        OptionError: if there are several paths for one table.
        DataError: if a linked table has no path, or a path no table.
    """
    from noisegate.schema.schema import is_linked
    from noisegate.sources.tables.tables import table_name

    if not is_linked(schema):
        if tables:
            raise OptionError(
                f"--table {without_password(tables[0])} is for linked tables, and the "
                "schema describes one table."
            )
        return one_path(data)

    data_paths = list(data or ())
    paths = parse_table_paths(tables or ())
    is_one_folder = len(data_paths) == 1 and Path(data_paths[0]).is_dir()
    # A folder that is called like a table holds the files of that table.
    holds_all_tables = is_one_folder and Path(data_paths[0]).name not in schema.names
    if holds_all_tables and not paths:
        return schema.parts(data_paths[0])
    for path in data_paths:
        name = table_name(Path(path))
        if name in paths:
            raise OptionError(
                f"DATA {shown_path(Path(path))}: a second path is given for the "
                f"table {name!r}, {shown_path(Path(paths[name]))}; give one."
            )
        paths[name] = path
    return schema.parts(paths)


def one_path(data: Sequence[str] | None) -> str | None:
    """Returns the only path in DATA; None if there is none.

    Raises:
        OptionError: if there are several.
    """
    if not data:
        return None
    if len(data) > 1:
        raise OptionError(
            f"DATA: {len(data)} paths are given, and the schema describes one table; "
            "put its files into one folder, or give a schema of linked tables."
        )
    return data[0]


@dataclass(frozen=True)
class ConsoleObserver:
    """Tells a run on standard error, in the words of the command line; an `Observer`.

    A run calls its observer at each stage: ``planned`` before anything is spent,
    ``reading`` around the records, ``queried`` when the release is complete, ``fitted``
    if the fit is doubtful, ``kept`` if an error stops it. It also asks how an option is
    written, since messages of a run read alike in Python and here.

    Attributes:
        method: Value of --method; of "auto" the choice is explained.
        as_json: Whether JSON is printed, which leaves the plan out.
    """

    method: str | Method
    as_json: bool

    @property
    def watched(self) -> bool:
        """Whether anybody sees the progress."""
        return ERR.is_terminal and not ERR.quiet

    def say(self, text: str) -> None:
        """Prints what an operator may want to know."""
        say(text)

    def warn(self, text: str) -> None:
        """Prints what an operator must know."""
        warn(text)

    def fitted(self, text: str) -> None:
        """Prints what is wrong with a fit."""
        warn(text)

    def working(self, title: str, total: int | None) -> AbstractContextManager[Tell]:
        """Shows the progress of a block of work."""
        return show_progress(title, total)

    def option(self, name: str, *value: Any) -> str:
        """Returns an option as it is typed, with its value if there is one.

        For example ``option("unit_column", "id")`` is ``--unit-column id``.
        """
        if name == "data":
            return _DATA
        is_schema_object = bool(value) and not isinstance(value[0], str | Path)
        if name == "schema" and is_schema_object:
            return "What --size, --classes and the like describe"
        return " ".join([f"--{name.replace('_', '-')}", *map(str, value)])

    def setting(self, name: str, value: Any) -> str:
        """Returns a setting of the method as it is typed."""
        return typed_setting(name, value)

    def call(self, folder: RunFolder, data: Any = None) -> str:
        """Returns the command that resumes a run, with the records if needed.

        For example ``noisegate fit --resume patients.csv --out model``.
        """
        paths = data.values() if isinstance(data, dict) else [data]
        records = "".join(
            f"{shlex.quote(shown_path(Path(path)))} "
            for path in paths
            if path is not None
        )
        out = shlex.quote(str(folder.out))
        return f"noisegate fit --resume {records}--out {out}"

    def planned(self, run: Run, gate: Gate, plan: Plan, data: Any) -> None:
        """Shows what a run will read and spend, before it does.

        The operator may still stop it, at no cost.

        Args:
            run: What is asked for.
            gate: The gate before the records.
            plan: What will be released, with its cost.
            data: Path of the records, or of each linked table by name.
        """
        from noisegate.methods.abilities import ChosenByAuto
        from noisegate.methods.registry import AUTO

        if isinstance(data, dict):
            tables = [
                f"{name} ({shown_path(Path(path))})" for name, path in data.items()
            ]
            say(f"Linked tables: {', '.join(tables)}.")
        elif gate.schema.images is None:
            announce_files(data)
        if not self.as_json and not ERR.quiet:
            if isinstance(run.method, ChosenByAuto) and self.method == AUTO:
                reason = run.method.why(gate.schema, gate.budget.epsilon)
                if reason:
                    say(reason)
            show_plan(plan, gate.records)
        # The number of skipped images is not public, and logs are passed on.
        if run.on_error == "skip" and not ERR.is_terminal:
            say(
                "Unusable images are left out. Their number is private and shown "
                "only in a terminal."
            )
        warn_about_delta(gate.budget.delta, gate.records)
        warn_about_constraints(gate.schema)
        if run.dataset is None:
            warn(
                "no --dataset: the cost is in no ledger. Costs of several runs on "
                "the same records add up."
            )

    def reading(
        self, about: int | None
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Shows how many records were read, in a terminal alone."""
        return reading(about, ERR)

    def queried(self, gate: Gate) -> None:
        """Tells how many images were left out, to a terminal alone.

        The number is private, and what is redirected is stored and sent on.
        """
        if gate.skipped and ERR.is_terminal:
            warn(
                f"{gate.skipped:,} images could not be used and were left out. "
                "This number is private."
            )

    def kept(self, error: BaseException, text: str, call: str) -> None:
        """Prints how to resume a run that an error stops."""
        say(text)
        say(f"  {call}")

    def made(self, model: Any) -> None:
        """Logs that the model is complete; `report_fit` prints what it is."""
        from noisegate.app.runs.folder import fitted_message

        LOG.info("%s", fitted_message(model))


def report_fit(model: FittedModel, out: Path, seconds: float, as_json: bool) -> None:
    """Prints what a fit has made: its cost, how close it came, and what to do next.

    Args:
        model: The fitted model.
        out: Its folder.
        seconds: How long the fit took.
        as_json: Whether to print JSON for programs instead.
    """
    release = model.release
    certificate = release.certificate
    # A classifier has no summary of a fit to a release.
    summary: FitSummary | None = getattr(model, "summary", None)
    record_count = _record_count(release)
    is_count_public = certificate.public.get("records") is not None
    # A public number was compared with δ before the run.
    if not is_count_public:
        warn_about_delta(certificate.delta, record_count)
    if as_json:
        warnings = []
        if summary is not None and "warning" in summary.notes:
            warnings.append(summary.notes["warning"])
        print_json(
            {
                "model": str(out),
                "seconds": seconds,
                "fit": None if summary is None else summary.to_json(),
                "noisy_records": record_count,
                "warnings": warnings,
                "certificate": certificate.to_json(),
            }
        )
        return
    if not ERR.quiet:
        _show_fit(release, summary, out, seconds)


def _record_count(release: Release) -> float | None:
    """Returns the number of records: the public one, else the noisy one, 1 or more.

    The noisy one is the sum of the released counts by label; it is post-processing, and
    may be compared with δ. None if neither was released.
    """
    public_count: int | None = release.certificate.public.get("records")
    if public_count:
        return public_count
    counts = release.values.get("counts")
    return None if counts is None else max(float(counts.sum()), 1.0)


def _show_fit(
    release: Release, summary: FitSummary | None, out: Path, seconds: float
) -> None:
    """Prints what a fit has made, for people.

    Args:
        release: The release.
        summary: How the fit ended; None for a classifier.
        out: Folder of the model.
        seconds: How long the fit took.
    """
    from noisegate.models.folder import PUBLIC_PAGE

    certificate = release.certificate
    done = (
        f"[green]Done[/green] in {seconds:.0f} s: epsilon = {certificate.epsilon:g}, "
        f"delta = {certificate.delta:g}, {certificate.adjacency.value}."
    )
    # The discrepancy is infinite if it was not measured.
    if summary is not None and math.isfinite(summary.discrepancy):
        done += (
            f" The distance to the release is {summary.discrepancy:.2f} times what its "
            f"noise explains, after {summary.step} steps."
        )
    OUT.print(done)
    if summary is not None and "effective_references" in summary.notes:
        notes = summary.notes
        OUT.print(
            f"Of {notes['references']:,} public records, "
            f"{notes['effective_references']:,.0f} count (effective sample size); the "
            f"heaviest has {notes['largest_share']:.2%} of the weight."
        )
    show_verdict(None if summary is None else summary.verdict)
    if summary is None:
        next_command = f"explain {out}"
    else:
        next_command = f"sample {out} -n 10000 -o {_synthetic_name(release)}"
    OUT.print(
        f"Model and certificate: {out}, {out / 'certificate.md'}. Next: noisegate "
        f"{next_command}"
    )
    if (out / PUBLIC_PAGE).exists():
        OUT.print(f"A page that may be published with it: {out / PUBLIC_PAGE}")


def _synthetic_name(release: Release) -> str:
    """Returns a name for synthetic records, with the ending that suits them.

    Linked tables are written into a folder, which has no ending.
    """
    from noisegate.schema.schema import is_linked

    schema = release.stated_schema
    if is_linked(schema):
        return "synthetic"
    return "synthetic.parquet" if schema.images else "synthetic.csv"
