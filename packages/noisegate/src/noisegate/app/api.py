"""The one-call form: a private table in, or private images, and a model out."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from noisegate.app.runs.folder import Observer, Run, RunFolder, ShownProgress
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


def fit(
    data: Any = None,
    *,
    schema: Schema | Any | str | Path | None = None,
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
    discovery: Certificate | None = None,
    progress: bool | None = None,
    observer: Observer | None = None,
    engine: Engine | None = None,
    **settings: Any,
) -> FittedModel:
    """Returns a model of private records: spends ε once, then only what has left the gate is used.

    No interruption wastes the budget: Ctrl-C waits for the moment at which what was paid for is written down, and the
    error that stops the run says how to resume it, at no further cost.

    Args:
        data: A path, or a table or images in memory (see `Gate`). What `sample(n)` gives is a table of the same kind.
            Of linked tables a mapping from their names to paths or tables, or a folder with a file for each.
        schema: Public knowledge about the records, or the path of its TOML file.
        epsilon: ε of the guarantee.
        delta: δ of the guarantee.
        method: Name of the method, or one that is made, as ``Pairwise(cells=8)``; "auto" is the one that does best
            where nothing else is known.
        out: Model folder to make; None to keep the model in memory only.
        resume: Go on with the interrupted run of `out`, or of the folder that its error named. Options may be left out,
            and data too, unless records that were in memory have to be read again.
        adjacency: The neighbouring relation.
        records: The number of records when it is public.
        unit: What one record stands for, in the words of the certificate.
        unit_column: Column that says whose record each one is; protects all records of one unit (see `Gate`).
        contributions: With `unit_column`, how many records of a unit are used at most.
        ledger: Ledger to book the cost on, with `dataset`.
        dataset: Name of the data set in the ledger.
        seed: Seed for non-private randomness; the private noise takes none.
        device: "auto", "cpu", "cuda" or "mps".
        on_error: What happens to images that cannot be read: "refuse" the run, or "skip" them.
        discovery: Certificate of the discovery that estimated the schema, as `discover_schema` returns it. Beside
            a TOML file it is found by itself.
        progress: Show how far the run is: bars in a terminal or a notebook, lines of the log ``noisegate`` elsewhere;
            of a training also ε so far. None for in a notebook alone.
        observer: What the run tells its plan and its progress to, in place of the log.
        engine: Where records are summed: threads of this machine, or the machines of a cluster (`RayEngine`).
        settings: Settings of the method, for instance ``frequencies=500``.

    Raises:
        UserError: if anything given is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, fit
        >>> from noisegate.schema import Boolean, Integer
        >>> schema = Schema((Integer(name="age", lower=0, upper=99), Boolean(name="ill")), label="ill")
        >>> table = pa.table({"age": [31, 58, 44, 67] * 50, "ill": [False, True, False, True] * 50})
        >>> model = fit(table, schema=schema, epsilon=1.0, method="dp-merf", frequencies=20, fit_options={"steps": 5})
        >>> model.sample(2).column_names, model.certificate.epsilon
        (['age', 'ill'], 1.0)
    """
    options: dict[str, Any] = {
        name: value
        for name, value in locals().items()
        if name in Run.__dataclass_fields__
    }
    options["adjacency"] = Adjacency.parse(adjacency).value
    watched = "ipykernel" in sys.modules if progress is None else progress
    observer = observer or (ShownProgress() if watched else None)
    place, defaults = (
        None if out is None else Path(out),
        cast("dict[str, Any]", fit.__kwdefaults__),
    )
    if resume:
        folder = RunFolder(
            place, None if resume is True else Path(resume), observer=observer
        )
        given = {
            name: value for name, value in options.items() if value != defaults[name]
        }
        if isinstance(method, Method):
            given |= {"method": method.name}
            settings = method.to_json() | settings
        given["settings"] = settings | ({"seed": seed} if seed else {})
        return resume_run(folder, data, given=given, device=device, engine=engine)
    run = Run.of(**options, settings={"seed": seed, **settings})
    rare = run.schema.usable().hardly_satisfiable
    if rare is not None:
        warnings.warn(rare, UserWarning, stacklevel=2)
    return start_run(
        run, data, RunFolder(place, observer=observer), device=device, engine=engine
    )


def plan(
    schema: Schema | Any | str | Path,
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
    """Returns what a fit would release, at what cost, and how accurate it would be; reads no data, spends nothing.

    The options are those of `fit`; with `records`, their public number, there is more to say.

    Raises:
        UserError: if anything given is unusable.

    Examples:
        >>> from noisegate import Schema, plan
        >>> from noisegate.schema import Integer
        >>> plan(Schema([Integer(name="age", lower=0, upper=99)]), epsilon=1.0, records=100).verdict.word
        'usable'
    """
    asked = {
        name: value
        for name, value in locals().items()
        if name in Run.__dataclass_fields__
    }
    run = Run.of(**asked, unit=RECORD, dataset=None, ledger=None, settings=settings)
    return run.method.planned(run.schema, run.budget, records, reason=method == AUTO)


def synthesize(
    data: Any, *, schema: Schema | str | Path, epsilon: float, **options: Any
) -> Synthesizer:
    """Returns a synthesizer for a private table; its `sample(n)` gives the kind of table that was put in.

    For images, described by `noisegate.schema.pixel_schema`, its `images(n)` gives images, and the method is told their
    shape by the schema. The short form of `fit`, for methods that make records, with its options.

    Raises:
        UserError: if anything given is unusable; nothing is spent.
        BudgetRefusedError: if the ledger refuses.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, synthesize
        >>> from noisegate.schema import Integer
        >>> table = pa.table({"age": [31, 58, 44, 67] * 50})
        >>> model = synthesize(table, schema=Schema([Integer(name="age", lower=0, upper=99)]), epsilon=1.0)
        >>> people = model.sample(1000, seed=0)
        >>> people.shape, str(people["age"].type)
        ((1000, 1), 'int64')
    """
    method = options.get("method", AUTO)
    method_named(method.name if isinstance(method, Method) else method, makes="records")
    return cast("Synthesizer", fit(data, schema=schema, epsilon=epsilon, **options))
