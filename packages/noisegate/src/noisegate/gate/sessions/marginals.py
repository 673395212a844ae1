"""Marginals that OpenDP's AIM and MST choose and measure: the door where the noise is OpenDP's own (G-17).

OpenDP gets a record's cell in each column, between 0 and a public size, and ρ is all
that it may spend.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import CalibrationError, DataError, MissingExtraError, OptionError
from noisegate.gate.session import Access, Session
from noisegate.gate.sums import Progress
from noisegate.privacy.marginal_plan import MOST_RECORDS, MarginalPlan, marginal_name
from noisegate.privacy.release import Release
from noisegate.progress import note
from noisegate.queries.binning import NumericBins


def check_extra() -> None:
    """Refuses to go on where the optional packages are not here, or of versions that do not work together."""
    try:
        import mbi  # noqa: F401
        import opendp.extras.mbi
        import opendp.mod
        import polars
    except ImportError as error:
        raise MissingExtraError(
            f"the methods aim and mst need optional packages ({error.name} is missing); "
            "install them with: pip install 'noisegate[marginals]'"
        ) from None
    built_for: str = opendp.mod._EXPECTED_POLARS_VERSION
    if polars.__version__ != built_for:
        raise MissingExtraError(
            f"the methods aim and mst need polars {built_for}, for which OpenDP was built, found {polars.__version__}; "
            "install it with: pip install 'noisegate[marginals]'"
        )


class MarginalSession(Session):
    """The one answer to a plan of marginals, to be had from `Gate.marginals`; `bins` are of the numeric columns."""

    def __init__(self, access: Access, bins: Sequence[NumericBins]) -> None:
        layout = access.source.schema.layout
        sizes = (
            *(column.size for column in bins),
            *(column.size for column in layout.coded),
        )
        if len(bins) != len(layout.numeric) or sizes != access.plan.sizes:
            raise OptionError(
                f"the plan is of columns with {access.plan.sizes} cells, bins and schema give {sizes}."
            )
        check_extra()
        super().__init__(access)
        self._bins = bins

    def release(self) -> Release:
        """Reserves the cost, reads the records, and hands OpenDP's noisy counts out; they cost once it has begun."""
        with self._asking():
            codes = _read(self._access.source, self._bins, self._access.progress)
            self._check_records(codes.shape[1])
            frame = _frame(codes, self.plan)
            measure = _measurement(self.plan)
            self._confirm()
            values, stds = _run(measure, frame, self.plan.name)
        return self._release(values, stds)


def _read(
    source: Any, bins: Sequence[NumericBins], progress: Progress | None
) -> npt.NDArray[np.int32]:
    """Returns the cell of every record in every column, (columns, records)."""
    parts: list[npt.NDArray[np.int32]] = []
    seen = 0
    for records in source.batches():
        numeric = [
            column.codes(records.numeric[:, place]) for place, column in enumerate(bins)
        ]
        parts.append(np.stack([*numeric, *records.codes.T]))
        seen += len(records)
        if seen > MOST_RECORDS:
            raise DataError(
                f"{source.name}: more than {MOST_RECORDS} records; no guarantee is proved for as many."
            )
        if progress:
            progress(seen)
    return np.concatenate(parts, axis=1)


def _measurement(plan: MarginalPlan) -> Callable[[Any], Any]:
    """Returns OpenDP's measurement, after asking its privacy map."""
    import opendp.prelude

    dp: Any = opendp.prelude
    dp.enable_features("contrib")
    _leave_room()
    names = {str(column): plan.sizes[column] for column in plan.columns}
    options = dict(plan.options)
    began = time.monotonic(), count(1)
    estimator = partial(_estimate, iterations=options.pop("iterations"), began=began)
    if plan.algorithm == "AIM":
        options["queries"] = [
            dp.mbi.Count(tuple(str(column) for column in table))
            for table in plan.candidates
        ]
    bounds = [dp.polars.Bound(per_group=plan.distance)]
    measurement, _, _ = dp.mbi.make_contingency_table(
        dp.lazyframe_domain(
            [
                dp.series_domain(name, dp.option_domain(dp.atom_domain(T="i32")))
                for name in names
            ]
        ),
        dp.frame_distance(dp.symmetric_distance()),
        dp.zero_concentrated_divergence(),
        bounds,
        plan.spendable,
        # Absent means the last code; OpenDP adds that key by itself.
        keys={name: list(range(size - 1)) for name, size in names.items()},
        algorithm=getattr(dp.mbi, plan.algorithm)(**options, estimator=estimator),
    )
    if not measurement.map(bounds) <= plan.rho:
        raise CalibrationError(
            f"OpenDP would spend more than rho={plan.rho:g}; it was not run. Please report this."
        )
    run: Callable[[Any], Any] = measurement
    return run


def _leave_room() -> None:
    """Makes OpenDP 0.16 give MST's selections a trifle less than their part of ρ."""
    # It divides that by their number, rounding down, and adds up, rounding up: often too much, and it stops halfway.
    import opendp.extras.mbi._mst

    def prior(x: float) -> float:
        return x * (1 - 1e-12)

    module: Any = opendp.extras.mbi._mst
    module.prior = prior


def _estimate(
    domain: Any,
    measured: Any,
    *,
    potentials: Any = None,
    iterations: int,
    began: tuple[float, Iterator[int]],
) -> Any:
    """Fits OpenDP's model to noisy counts, as it does by default, within the limits of the proof."""
    seconds, rounds = time.monotonic() - began[0], next(began[1])
    note(f"choosing and measuring tables, round {rounds}, {seconds:.0f} s")
    import jax
    from mbi.estimation import mirror_descent

    model = mirror_descent(domain, measured, potentials=potentials, iters=iterations)
    settings: Any = jax.config
    if not (settings.jax_enable_x64 and float(model.total) <= MOST_RECORDS):
        raise CalibrationError(
            "no guarantee is proved for scores in float32, or for as many records."
        )
    return model


def _frame(codes: npt.NDArray[np.int32], plan: MarginalPlan) -> Any:
    import polars as pl

    columns = {str(column): pl.Series(values=codes[column]) for column in plan.columns}
    return pl.LazyFrame(
        {
            name: values.set(values == plan.sizes[int(name)] - 1, None)
            for name, values in columns.items()
        }
    )


def _run(
    measure: Callable[[Any], Any], frame: Any, name: str
) -> tuple[dict[str, npt.NDArray[np.float64]], dict[str, float]]:
    """Returns noisy counts, (cells, 1), and the standard deviation of their noise, by the names of the release."""
    try:
        measured = measure(frame).marginals.flatten()
    except Exception as error:
        found = type(error).__name__
    else:
        values, stds = {}, {}
        for number, marginal in enumerate(measured):
            key = marginal_name(
                name, number, [int(column) for column in marginal.clique]
            )
            values[key] = np.asarray(
                marginal.noisy_measurement, dtype=np.float64
            ).reshape(-1, 1)
            stds[key] = float(marginal.stddev)
        return values, stds
    # Outside the handler: OpenDP's message may quote records, and must not travel along as the context.
    raise DataError(
        f"OpenDP stopped with {found}, maybe after it drew noise; nothing was handed out, and the cost stays reserved."
    )
