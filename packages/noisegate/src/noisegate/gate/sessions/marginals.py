"""Marginals that OpenDP's AIM and MST choose and measure, with noise of OpenDP's own.

This is the only query whose noise noisegate does not draw: OpenDP chooses tables by the
data, measures them and chooses again, in one call (G-17). It gets the cell of each
record in each column, an integer from 0 to a public size, and may spend ρ (of
zero-concentrated differential privacy). How much it would spend is checked by OpenDP's
own privacy map, before it gets any record.

How to read it: `MarginalSession.release` has the order of the steps,
`_build_measurement` builds what OpenDP runs, and `_run_measurement` runs it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import CalibrationError, DataError, MissingExtraError, OptionError
from noisegate.gate.sums import Progress
from noisegate.gate.transaction import Access, Answering, Transaction
from noisegate.privacy.marginal_plan import (
    MOST_RECORDS,
    NoisyMarginals,
    marginal_name,
    marginals_of,
    neighbour_distance,
)
from noisegate.privacy.release import Release
from noisegate.progress import note
from noisegate.queries.binning import NumericBins


def check_extra() -> None:
    """Checks that the optional packages of AIM and MST are installed, and fit.

    Raises:
        MissingExtraError: if they are not.
    """
    try:
        import mbi  # noqa: F401
        import opendp.extras.mbi
        import opendp.mod
        import polars
    except ImportError as error:
        raise MissingExtraError(
            f"the methods aim and mst need optional packages ({error.name} is "
            "missing); install them with: pip install 'noisegate[marginals]'"
        ) from None
    expected_version: str = opendp.mod._EXPECTED_POLARS_VERSION
    if polars.__version__ != expected_version:
        raise MissingExtraError(
            f"the methods aim and mst need polars {expected_version}, for which OpenDP "
            f"was built, found {polars.__version__}; install it with: pip install "
            "'noisegate[marginals]'"
        )


class MarginalSession(Answering):
    """Answers one plan of marginals, by OpenDP; `Gate.marginals` uses it.

    Args:
        access: The records, the plan, which has marginals, and the means.
        bins: Public bins of the numeric columns, in the order of the columns.

    Raises:
        OptionError: if plan, bins and schema are not of the same columns.
        MissingExtraError: if OpenDP's optional packages are not installed.
    """

    def __init__(self, access: Access, bins: Sequence[NumericBins]) -> None:
        layout = access.source.schema.layout
        sizes = (
            *(column_bins.size for column_bins in bins),
            *(column.size for column in layout.coded),
        )
        marginals = marginals_of(access.plan)
        if len(bins) != len(layout.numeric) or sizes != marginals.sizes:
            raise OptionError(
                f"the plan is of columns with {marginals.sizes} cells, bins and "
                f"schema give {sizes}."
            )
        check_extra()
        super().__init__(Transaction(access))
        self._marginals = marginals
        self._bins = bins

    def release(self) -> Release:
        """Reads all records, and releases the noisy tables that OpenDP chooses.

        The cost is reserved first, and stays spent once OpenDP has begun.

        Returns:
            The noisy counts of each table, (cells, 1), with their certificate.

        Raises:
            DataError: if the data does not fit the schema, or OpenDP stops.
            BudgetRefusedError: if the ledger refuses.
        """
        transaction = self._transaction
        access = transaction.access
        with transaction.reading_records():
            cells = _read_cells(access.source, self._bins, access.progress)
            transaction.check_record_count(cells.shape[1])
            frame = _lazy_frame(cells, self._marginals)
            distance = neighbour_distance(self.plan.budget)
            measure = _build_measurement(self._marginals, distance)
            # OpenDP draws noise while it runs. So whatever can fail before is done
            # first, and the reservation is confirmed just before OpenDP runs.
            transaction.confirm()
            values, stds = _run_measurement(measure, frame, self._marginals.name)
        return transaction.release(values, stds)


def _read_cells(
    source: Any, bins: Sequence[NumericBins], progress: Progress | None
) -> npt.NDArray[np.int32]:
    """Reads the cell of every record in every column.

    A cell is the index of a bin of a numeric column, or the code of a coded column.

    Args:
        source: The private records.
        bins: Public bins of the numeric columns, in the order of the columns.
        progress: Called with the number of records read so far.

    Returns:
        Cells, (columns, records), numeric columns first; private.

    Raises:
        DataError: if there are more records than the proof allows.
    """
    parts: list[npt.NDArray[np.int32]] = []
    record_count = 0
    for records in source.batches():
        numeric_cells = [
            column_bins.codes(records.numeric[:, index])
            for index, column_bins in enumerate(bins)
        ]
        parts.append(np.stack([*numeric_cells, *records.codes.T]))
        record_count += len(records)
        if record_count > MOST_RECORDS:
            raise DataError(
                f"{source.name}: more than {MOST_RECORDS} records; no guarantee is "
                "proved for as many."
            )
        if progress:
            progress(record_count)
    return np.concatenate(parts, axis=1)


def _build_measurement(
    marginals: NoisyMarginals, distance: int
) -> Callable[[Any], Any]:
    """Builds OpenDP's measurement, and checks by its privacy map what it spends.

    Args:
        marginals: The algorithm, the columns and their sizes, and the ρ that may be
            spent.
        distance: How many rows at most are in one of two neighbouring data sets only.

    Returns:
        A function from a Polars frame of the records to OpenDP's noisy contingency
        table.

    Raises:
        CalibrationError: if the measurement would spend more than ρ.
    """
    import opendp.prelude

    dp: Any = opendp.prelude
    dp.enable_features("contrib")
    _shrink_selection_budget()
    sizes = {str(column): marginals.sizes[column] for column in marginals.columns}
    # The plan's options are those of OpenDP's algorithm, except the iterations, which
    # go to `_fit_model`. AIM gets its candidate tables too.
    options = dict(marginals.options)
    estimator = partial(
        _fit_model,
        iterations=options.pop("iterations"),
        start_time=time.monotonic(),
        round_numbers=count(1),
    )
    if marginals.algorithm == "AIM":
        options["queries"] = [
            dp.mbi.Count(tuple(map(str, table))) for table in marginals.candidates
        ]
    domain = dp.lazyframe_domain(
        [
            dp.series_domain(name, dp.option_domain(dp.atom_domain(T="i32")))
            for name in sizes
        ]
    )
    neighbour_bounds = [dp.polars.Bound(per_group=distance)]
    # The keys of a column are its cells without the last one: that is stored as missing
    # (`_lazy_frame`), for which OpenDP adds a key by itself.
    keys = {name: list(range(size - 1)) for name, size in sizes.items()}
    algorithm = getattr(dp.mbi, marginals.algorithm)(**options, estimator=estimator)
    measurement, _, _ = dp.mbi.make_contingency_table(
        domain,
        dp.frame_distance(dp.symmetric_distance()),
        dp.zero_concentrated_divergence(),
        neighbour_bounds,
        marginals.spendable_rho,
        keys=keys,
        algorithm=algorithm,
    )
    # `not <=`, so that NaN is refused too.
    if not measurement.map(neighbour_bounds) <= marginals.rho:
        raise CalibrationError(
            f"OpenDP would spend more than rho={marginals.rho:g}; it was not run. Please "
            "report this."
        )
    run: Callable[[Any], Any] = measurement
    return run


def _shrink_selection_budget() -> None:
    """Makes OpenDP 0.16 give MST's selections slightly less than their part of ρ.

    OpenDP divides that part by the number of selections, rounding down, and adds the
    quotients up again, rounding up. Often the sum exceeds the part by one rounding, and
    OpenDP stops halfway. So its function is replaced.
    """
    import opendp.extras.mbi._mst

    def slightly_below(x: float) -> float:
        """Returns a number that is smaller by more than a rounding of float64."""
        return x * (1 - 1e-12)

    # OpenDP calls `prior`, the next smaller float, on the part of each selection.
    module: Any = opendp.extras.mbi._mst
    module.prior = slightly_below


def _fit_model(
    domain: Any,
    measured: Any,
    *,
    potentials: Any = None,
    iterations: int,
    start_time: float,
    round_numbers: Iterator[int],
) -> Any:
    """Fits a graphical model to noisy counts, as OpenDP's own estimator does.

    OpenDP calls it after each round of measuring, and chooses the next tables by the
    model. This one also reports progress and checks the limits of the proof.

    Args:
        domain: The columns and their sizes, as `mbi` has them.
        measured: Noisy counts so far.
        potentials: Parameters of the model at which the fit starts.
        iterations: Number of steps of mirror descent.
        start_time: When the run began, in seconds of the monotonic clock.
        round_numbers: Yields the number of this round, from 1.

    Returns:
        The model, of the type that OpenDP expects of an estimator.

    Raises:
        CalibrationError: if the fit is outside the limits of the proof (G-17).
    """
    seconds = time.monotonic() - start_time
    round_number = next(round_numbers)
    note(f"choosing and measuring tables, round {round_number}, {seconds:.0f} s")
    # Imported after the note, as the first import takes seconds.
    import jax
    from mbi.estimation import mirror_descent

    model = mirror_descent(domain, measured, potentials=potentials, iters=iterations)
    settings: Any = jax.config
    if not (settings.jax_enable_x64 and float(model.total) <= MOST_RECORDS):
        raise CalibrationError(
            "no guarantee is proved for scores in float32, or for as many records."
        )
    return model


def _lazy_frame(cells: npt.NDArray[np.int32], marginals: NoisyMarginals) -> Any:
    """Converts the records to a lazy frame of Polars, as OpenDP reads them.

    OpenDP has a key for missing values in every column. So the last cell of each column
    is stored as missing.

    Args:
        cells: Cells, (columns, records); private.
        marginals: Which columns are used, and their sizes.

    Returns:
        The frame, whose columns are named by their indices, as text.
    """
    import polars as pl

    series_by_name: dict[str, Any] = {}
    for column in marginals.columns:
        series = pl.Series(values=cells[column])
        last_cell = marginals.sizes[column] - 1
        series_by_name[str(column)] = series.set(series == last_cell, None)
    return pl.LazyFrame(series_by_name)


def _run_measurement(
    measure: Callable[[Any], Any], frame: Any, name: str
) -> tuple[dict[str, npt.NDArray[np.float64]], dict[str, float]]:
    """Runs OpenDP's measurement on the records.

    Args:
        measure: OpenDP's measurement, from `_build_measurement`.
        frame: The records, from `_lazy_frame`; private.
        name: Name of the plan, with which the names of its tables begin.

    Returns:
        Noisy counts of each table, (cells, 1), and the standard deviation of their
        noise, by the names of the release.

    Raises:
        DataError: if OpenDP stops. Its message is not passed on.
    """
    try:
        marginals = measure(frame).marginals.flatten()
    except Exception as error:
        error_type = type(error).__name__
    else:
        values: dict[str, npt.NDArray[np.float64]] = {}
        stds: dict[str, float] = {}
        for number, marginal in enumerate(marginals):
            columns = [int(column) for column in marginal.clique]
            table_name = marginal_name(name, number, columns)
            noisy_counts = np.asarray(marginal.noisy_measurement, dtype=np.float64)
            values[table_name] = noisy_counts.reshape(-1, 1)
            stds[table_name] = float(marginal.stddev)
        return values, stds
    # Raised outside the handler: OpenDP's message may quote records, and would travel
    # along as the context of this error.
    raise DataError(
        f"OpenDP stopped with {error_type}, maybe after it drew noise; nothing was "
        "released, and the cost stays reserved."
    )
