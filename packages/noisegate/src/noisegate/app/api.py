"""The one-call form: private records in, a model and its certificate out.

- `fit`: any method; one call gates, releases and fits.
- `plan`: the same arguments, but only states what a fit would release, at what cost.
- `synthesize`: `fit` for methods whose models sample records.

Their options are declared in `app.request`, and the command line has the same.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from noisegate.app.request import Request
from noisegate.app.runs.folder import LogObserver, Observer, Run, RunFolder
from noisegate.app.runs.work import resume_run, start_run
from noisegate.ledger.ledger import Ledger
from noisegate.methods.method import Method, Planned
from noisegate.methods.registry import AUTO, method_named
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import RECORD, Adjacency
from noisegate.schema import Schema

if TYPE_CHECKING:
    from noisegate.gate.sums import Engine
    from noisegate.models.record_model import FittedModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.schema.linked.schema import LinkedSchema


def fit(
    data: Any = None,
    *,
    schema: Schema | LinkedSchema | str | Path | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    method: str | Method = AUTO,
    out: str | Path | None = None,
    resume: bool | str | Path = False,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    records: int | None = None,
    unit: str = RECORD,
    unit_column: str | None = None,
    contributions: int | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    seed: int = 0,
    device: str = "auto",
    on_error: str = "refuse",
    log: str | Path | None = None,
    discovery: Certificate | None = None,
    progress: bool | None = None,
    observer: Observer | None = None,
    engine: Engine | None = None,
    title: str | None = None,
    owner: str | None = None,
    purpose: str | None = None,
    **settings: Any,
) -> FittedModel:
    """Fits a model to private records and spends ε once.

    An interruption never wastes the budget. After Ctrl-C, a run first saves the noisy
    results that it has paid for. The error that stops the run states how to resume it,
    at no further cost.

    Args:
        data: Private records: a path, a table in memory, or images in memory (see
            `Gate`). The model samples tables of the same kind. For linked tables: a
            mapping from table names to paths or tables, or a folder with one file for
            each table.
        schema: Public knowledge about the records, or the path of its TOML file.
        epsilon: ε of the guarantee.
        delta: δ of the guarantee.
        method: Name of a method, or a method with its settings, such as
            ``Pairwise(cells=8)``. "auto" selects the default method for the schema.
        out: Model folder to create; None keeps the model in memory only.
        resume: True continues the interrupted run of `out`. A path continues the run in
            the folder that the error message named. Other options may then be omitted.
            So may `data`, unless records in memory have to be read again.
        adjacency: Neighbouring relation: "add-remove" or "replace-one".
        records: Number of records, if it is public.
        unit: Name of the privacy unit (what one record stands for), for the
            certificate.
        unit_column: Column that identifies the unit of each record. The guarantee then
            covers all records of one unit together (see `Gate`).
        contributions: With `unit_column`, the largest number of records used per unit.
        ledger: Ledger that records the cost, together with `dataset`.
        dataset: Name of the data set in the ledger.
        seed: Seed for non-private randomness. The noise that protects the records
            cannot be seeded.
        device: "auto", "cpu", "cuda" or "mps".
        on_error: What to do with images that cannot be read: "refuse" stops the run,
            "skip" leaves them out.
        log: Text file to which the run appends its steps, with times. It contains no
            private value. Only its owner may read it.
        discovery: Certificate of the discovery that estimated the schema, from
            `discover_schema`. If it lies beside the schema's TOML file, it is found
            without this option.
        progress: True shows progress: bars in a terminal or a notebook, otherwise lines
            of the logger ``noisegate``. A training also shows its ε so far. None shows
            progress in notebooks only.
        observer: Receives the plan and the progress of the run, in place of the log.
        engine: Where records are summed: threads of this machine (default), or the
            machines of a Ray cluster (`RayEngine`).
        title: Title of the model, for the head of its pages. Public.
        owner: Who is responsible for the model, such as an office and an address.
            Public.
        purpose: What the model is for, in one line. Public.
        settings: Settings of the method, for instance ``frequencies=500``.

    Returns:
        The model: a `Synthesizer` if the method samples records, a model of linked
        tables, or a classifier.

    Raises:
        UserError: if an argument or the data is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses the cost.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, fit
        >>> from noisegate.schema import Boolean, Integer
        >>> columns = Integer(name="age", lower=0, upper=99), Boolean(name="ill")
        >>> ill = [False, True, False, True] * 50
        >>> patients = pa.table({"age": [31, 58, 44, 67] * 50, "ill": ill})
        >>> model = fit(patients, schema=Schema(columns, label="ill"), epsilon=1.0)
        >>> model.sample(2).column_names, model.certificate.epsilon
        (['age', 'ill'], 1.0)

        Another method, with two of its settings:

        >>> embedding = fit(
        ...     patients,
        ...     schema=Schema(columns, label="ill"),
        ...     epsilon=1.0,
        ...     method="dp-merf",
        ...     frequencies=20,
        ...     fit_options={"steps": 5},
        ... )
        >>> embedding.certificate.method
        'dp-merf'
    """
    request = Request(
        epsilon=epsilon,
        schema=schema,
        delta=delta,
        method=method,
        title=title,
        owner=owner,
        purpose=purpose,
        settings=settings,
        adjacency=adjacency,
        records=records,
        unit_column=unit_column,
        contributions=contributions,
        unit=unit,
        dataset=dataset,
        ledger=ledger,
        seed=seed,
        on_error=on_error,
        log=log,
        discovery=discovery,
    )
    is_in_notebook = "ipykernel" in sys.modules
    shows_progress = is_in_notebook if progress is None else progress
    if observer is None and shows_progress:
        observer = LogObserver(shows_bars=True)

    if resume:
        interrupted = None if resume is True else resume
        folder = RunFolder(out, interrupted, observer=observer, log=log)
        # What was left at its default was not asked for, and is what it was.
        return resume_run(
            folder, data, options=request.given(), device=device, engine=engine
        )

    run = Run.of(request)
    for warning in (run.schema.omissions, run.schema.usable().hardly_satisfiable):
        if warning is not None:
            warnings.warn(warning, UserWarning, stacklevel=2)
    folder = RunFolder(out, observer=observer, log=log)
    return start_run(run, data, folder, device=device, engine=engine)


def plan(
    schema: Schema | LinkedSchema | str | Path,
    *,
    epsilon: float,
    delta: float = 1e-5,
    method: str | Method = AUTO,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    records: int | None = None,
    unit_column: str | None = None,
    contributions: int | None = None,
    **settings: Any,
) -> Planned:
    """Plans a fit: its queries, their cost, and the expected accuracy.

    Reads no data and spends nothing.

    Args:
        schema: Public knowledge about the records, or the path of its TOML file.
        epsilon: ε of the guarantee.
        delta: δ of the guarantee.
        method: Name of a method, or a method with its settings.
        adjacency: Neighbouring relation: "add-remove" or "replace-one".
        records: Number of records, if it is public. With it, accuracy is predicted too.
        unit_column: Column that identifies the unit of each record.
        contributions: With `unit_column`, the largest number of records used per unit.
        settings: Settings of the method.

    Returns:
        The plan, with a predicted verdict if `records` is given.

    Raises:
        UserError: if an argument is unusable.

    Examples:
        >>> from noisegate import Schema, plan
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> plan(schema, epsilon=1.0, records=100).verdict.word
        'usable'
    """
    request = Request(
        epsilon=epsilon,
        schema=schema,
        delta=delta,
        method=method,
        settings=settings,
        adjacency=adjacency,
        records=records,
        unit_column=unit_column,
        contributions=contributions,
    )
    run = Run.of(request)
    return run.method.planned(run.schema, run.budget, records, reason=method == AUTO)


def synthesize(
    data: Any, *, schema: Schema | str | Path, epsilon: float, **options: Any
) -> Synthesizer:
    """Fits a synthesizer: `fit`, for methods whose models sample records.

    ``sample(n)`` of the result returns a table of the kind that was given. If the
    schema describes images (`noisegate.schema.pixel_schema`), ``images(n)`` returns
    images.

    Args:
        data: Private records: a path, or a table or images in memory.
        schema: Public knowledge about the records, or the path of its TOML file.
        epsilon: ε of the guarantee.
        options: Other options of `fit`.

    Returns:
        The fitted synthesizer.

    Raises:
        UserError: if an argument or the data is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses the cost.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, synthesize
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> patients = pa.table({"age": [31, 58, 44, 67] * 50})
        >>> model = synthesize(patients, schema=schema, epsilon=1.0)
        >>> people = model.sample(1000, seed=0)
        >>> people.shape, str(people["age"].type)
        ((1000, 1), 'int64')
    """
    method = options.get("method", AUTO)
    method_name = method.name if isinstance(method, Method) else method
    method_named(method_name, makes="records")
    return cast("Synthesizer", fit(data, schema=schema, epsilon=epsilon, **options))
