"""`noisegate fit`: spend ε once, then fit as long as it takes."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
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
)
from noisegate.app.cli.plan import show_plan, warn_about_delta
from noisegate.errors import OptionError
from noisegate.progress import reading

if TYPE_CHECKING:
    from noisegate.app.runs.folder import Observer, Run, RunFolder
    from noisegate.gate.gate import Gate
    from noisegate.models.record_model import FittedModel
    from noisegate.privacy.plan import PricedPlan
    from noisegate.privacy.release import Release

DATA = "DATA, the private records,"
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
            help="Private records: a CSV or Parquet file, or a folder of them. Private images: a folder of class "
            "folders or with labels.csv, Parquet with an image column, an .npz file, or MNIST's idx files on "
            "disk. Linked tables: a file or a folder for each, called like it, or one folder that holds these."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the guarantee, 0.01 to 1000.")
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
            help="Go on with an interrupted fit; costs nothing. Reads DATA again where queries or steps are left.",
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
    """Fit a model to private records: spends ε once, then only what has left the gate is used.

    Example: `noisegate fit patients.csv --schema schema.toml --epsilon 1 --out model --dataset clinic-2026`

    Linked tables: `noisegate fit patients.csv visits.csv --schema clinic.toml --epsilon 1 --out model`

    Images: `noisegate fit scans/ --size 28 --channels 1 --classes 10 --epsilon 1 --out model`, or with the same in a
    file: `noisegate fit scans/ --schema images.toml --epsilon 1 --out model`
    """
    from noisegate.app.runs.folder import RunFolder
    from noisegate.app.runs.work import resume_run, start_run

    started = time.monotonic()
    folder = RunFolder(out, observer=console_observer(options.method, as_json))
    told: dict[str, Any] = {"device": device, "show_values": show_values}
    chosen = select_engine(engine, address)
    if resume:
        model = resume_run(
            folder,
            one_place(data),
            given=options.explicit_options(context),
            ledger=options.ledger,
            engine=chosen,
            **told,
        )
    elif stream is not None or after is not None or withdrawn is not None:
        path = required(one_place(data), DATA)
        from noisegate.app.cli.streams import next_period

        model = next_period(
            context, path, folder, options, withdrawn=withdrawn, engine=chosen, **told
        )
    else:
        required(data or tables, DATA)  # before a schema is read
        run = options.to_run(epsilon)
        model = start_run(
            run, records_at(run.schema, data, tables), folder, engine=chosen, **told
        )
    report_fit(model, out, time.monotonic() - started, as_json)


def records_at(
    schema: Any, data: Sequence[str] | None, tables: Sequence[str] | None
) -> Any:
    """Returns the path of the records; of linked tables exactly one for each, by name."""
    from noisegate.schema.schema import is_linked

    if not is_linked(schema):
        if tables:
            raise OptionError(
                f"--table {tables[0]} is for linked tables, and the schema describes one table."
            )
        return one_place(data)
    paths = parse_table_paths(tables or ())
    if (
        data
        and len(data) == 1
        and Path(data[0]).is_dir()
        and Path(data[0]).name not in schema.names
        and not paths
    ):
        return schema.parts(data[0])
    for path in data or ():
        name = Path(path).stem
        if name in paths:
            raise OptionError(
                f"DATA {path}: there is another path for the table {name!r}, {paths[name]}; give one."
            )
        paths[name] = path
    return schema.parts(paths)


def one_place(data: Sequence[str] | None) -> str | None:
    """Returns the one path that is given, or None."""
    if data and len(data) > 1:
        cure = "put its files into one folder, or give a schema of linked tables."
        raise OptionError(
            f"DATA: {len(data)} paths are given, and the schema describes one table; {cure}"
        )
    return data[0] if data else None


def console_observer(asked: str, as_json: bool) -> Observer:
    """Returns what tells a run to the operator; `asked` is the method's name, and with JSON no plan is shown."""
    from noisegate.app.runs.folder import Observer
    from noisegate.methods.registry import AUTO

    class ConsoleObserver(Observer):
        watched = ERR.is_terminal
        say, warn, fitted, working = (
            staticmethod(say),
            staticmethod(warn),
            staticmethod(warn),
            staticmethod(show_progress),
        )

        def option(self, name: str, *value: Any) -> str:
            if name == "data":
                return DATA
            if name == "schema" and value and not isinstance(value[0], str | Path):
                return "What --size, --classes and the like describe"
            return " ".join([f"--{name.replace('_', '-')}", *map(str, value)])

        def setting(self, name: str, value: Any) -> str:
            return (
                f"--{name} {value}"
                if name in ("seed", "public")
                else f"--set {name} {value}"
            )

        def call(self, folder: RunFolder, data: Any = None) -> str:
            records = "" if data is None else f"{shlex.quote(str(data))} "
            return (
                f"noisegate fit --resume {records}--out {shlex.quote(str(folder.out))}"
            )

        def planned(self, run: Run, gate: Gate, plan: PricedPlan, data: Any) -> None:
            if isinstance(data, dict):
                say(
                    f"Linked tables: {', '.join(f'{name} ({path})' for name, path in data.items())}."
                )
            elif gate.schema.images is None:
                announce_files(data)
            if not as_json:
                if asked == AUTO and (
                    why := run.method.why(gate.schema, gate.budget.epsilon)
                ):
                    say(why)
                show_plan(plan, gate.records)
            if run.on_error == "skip" and not ERR.is_terminal:
                say(
                    "Images that cannot be used are left out; how many is private, and only said in a terminal."
                )
            warn_about_delta(gate.budget.delta, gate.records)
            warn_about_constraints(gate.schema)
            if run.dataset is None:
                warn(
                    "no --dataset: the cost is in no ledger. Costs of several runs on the same records add up."
                )

        def reading(
            self, about: int | None
        ) -> AbstractContextManager[Callable[[int], None]]:
            return reading(about, ERR)

        def queried(self, gate: Gate) -> None:
            if (
                gate.skipped and ERR.is_terminal
            ):  # what is redirected is kept and sent on
                left_out = (
                    f"{gate.skipped:,} images could not be used and were left out."
                )
                warn(f"{left_out} How many is private: keep it to yourself.")

        def kept(self, error: BaseException, text: str, call: str) -> None:
            say(text)
            say(f"  {call}")

    return ConsoleObserver()


def report_fit(model: FittedModel, out: Path, seconds: float, as_json: bool) -> None:
    """Tells what a fit made."""
    from noisegate.models.folder import PUBLIC_PAGE

    release, summary = model.release, getattr(model, "summary", None)
    certificate, counts = release.certificate, release.values.get("counts")
    records = certificate.public.get("records") or (
        None if counts is None else max(float(counts.sum()), 1.0)
    )
    if certificate.public.get("records") is None:
        warn_about_delta(certificate.delta, records)
    discrepancy = (
        summary.discrepancy
        if summary is not None and math.isfinite(summary.discrepancy)
        else None
    )
    if as_json:
        fit = None if summary is None else summary.to_json()
        told = {
            "model": str(out),
            "seconds": seconds,
            "fit": fit,
            "noisy_records": records,
        }
        told["warnings"] = (
            [summary.notes["warning"]]
            if summary is not None and "warning" in summary.notes
            else []
        )
        print_json(told | {"certificate": certificate.to_json()})
        return
    done = f"[green]Done[/green] in {seconds:.0f} s: epsilon = {certificate.epsilon:g}, delta = {certificate.delta:g}, "
    close = ""
    if summary is not None and discrepancy is not None:
        close = f" The distance to the release is {discrepancy:.2f} times what its noise explains, after "
        close += f"{summary.step} steps."
    OUT.print(f"{done}{certificate.adjacency.value}.{close}")
    notes = {} if summary is None else summary.notes
    if "effective_references" in notes:
        OUT.print(
            f"Of {notes['references']:,} public records, {notes['effective_references']:,.0f} count (effective sample "
            f"size); the heaviest has {notes['largest_share']:.2%} of the weight."
        )
    show_verdict(None if summary is None else summary.verdict)
    following = (
        f"explain {out}"
        if summary is None
        else f"sample {out} -n 10000 -o {_synthetic(release)}"
    )
    OUT.print(
        f"Model and certificate: {out}, {out / 'certificate.md'}. Next: noisegate {following}"
    )
    if (out / PUBLIC_PAGE).exists():
        OUT.print(f"A page that may be published with it: {out / PUBLIC_PAGE}")


def _synthetic(release: Release) -> str:
    from noisegate.schema.schema import is_linked

    schema = release.stated_schema
    return "synthetic" + (
        "" if is_linked(schema) else ".parquet" if schema.images else ".csv"
    )
