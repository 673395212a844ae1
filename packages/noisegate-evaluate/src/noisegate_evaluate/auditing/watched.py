"""Watches the queries of a gate: beside each answer, what known records add to the exact sum.

A `Watch` is the engine of its gate, so it sums known records beside all records, and
the gate shows it what answers other plans::

    Watch.sum          sums over all records   exact sums of the parts, by the gate's
                                               own code
    Watch.watched      gradients, batch        vectors of samples of single records,
                                               computed apart from the gate, clipped in
                                               float64
                       shards                  exact sums of the parts in the same
                                               shards, by the gate's own code
    Watch.see_release  marginals               exact tables of the parts
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.gate.execution import embedded_records
from noisegate.gate.per_example.gradients import FactoredLoss, RecordLoss
from noisegate.gate.samples import HeldRecords, PoissonSamples, Records
from noisegate.gate.sessions.gradients import GradientVectors
from noisegate.gate.sessions.shards import (
    BatchVectors,
    ShardVectors,
    copy_parameters,
)
from noisegate.gate.steps import StepVectors
from noisegate.gate.sums import (
    Engine,
    LocalEngine,
    Progress,
    SumTask,
    Totals,
    sum_records,
)
from noisegate.gate.transaction import Integers, Transaction
from noisegate.privacy.gradient_plan import StepQuery, steps_of
from noisegate.privacy.marginal_plan import marginal_columns
from noisegate.privacy.plan import Plan
from noisegate.privacy.release import Release
from noisegate.queries.binning import NumericBins
from noisegate.schema import EncodedTable, Layout
from noisegate.sources.linked import LinkRows

if TYPE_CHECKING:
    from torch import Tensor

Vector: TypeAlias = npt.NDArray[np.float64]
SampleVectors: TypeAlias = Callable[[Sequence[int]], Vector]
"""Computes the exact vector of a step's sample of known records, by their indices, over
the standard deviation of the noise."""
StepFunction: TypeAlias = Callable[[Mapping[str, Any]], SampleVectors]
"""Returns the vectors of samples at the parameters of a step."""


@dataclass
class Watch(Engine):
    """What an auditor writes down of one run.

    Attributes:
        parts: Sets of records, or of linked tables, whose exact sums are wanted for
            each query.
        singles: Records of whose samples the vectors are wanted at each step.
        on_step: Called with the plan, what a step released over the standard
            deviation of its noise, and the vectors of samples of `singles`.
        on_sum: Called with the plan, and over the standard deviation of the noise a
            step's sum over shards, and those of each of `parts`.
        sums: For each query, the exact sum of each part in the units of its release,
            (parts, dim, columns).
        bins: Bins of the numeric columns of marginals; None of other queries.
    """

    parts: Sequence[Any]
    singles: EncodedTable
    on_step: Callable[[Plan, Vector, SampleVectors], None] = lambda *_: None
    on_sum: Callable[[Plan, Vector, Vector], None] = lambda *_: None
    sums: dict[str, Vector] = field(default_factory=dict)
    bins: Sequence[NumericBins] | None = None
    in_parts: ClassVar[bool] = True

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Sums the vectors of all records of a source, and those of each part apart.

        Args:
            source: The records.
            tasks: The sum to take for each query, by name.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals over all records.
        """
        totals_of_parts = [_totals_of_part(part, source, tasks) for part in self.parts]
        for name, task in tasks.items():
            self.sums[name] = np.stack(
                [task.grid.restore(totals.sums[name]).T for totals in totals_of_parts]
            )
        return LocalEngine(threads=1).sum(source, tasks, progress)

    def watched(self, plan: Plan, answerer: Any) -> Any:
        """Returns what answers a plan: the same, and this watch is told of it.

        Args:
            plan: The plan.
            answerer: The computation of its steps, or the bins of its marginals.
        """
        observer: _ShardObserver | _SampleObserver
        if isinstance(answerer, ShardVectors):
            observer = _ShardObserver(vectors=answerer, plan=plan, watch=self)
        elif isinstance(answerer, GradientVectors | BatchVectors):
            if isinstance(answerer, GradientVectors):
                function = _gradient_function(answerer, plan, self.singles)
            else:
                function = _sample_function(answerer, plan, self.singles)
            observer = _SampleObserver(
                vectors=answerer, plan=plan, watch=self, function=function
            )
        else:
            self.bins = answerer
            return answerer
        return _WatchedSteps(
            query=answerer.query,
            public_settings=answerer.public_settings,
            checked=answerer.checked,
            probe=answerer.probe,
            read=answerer.read,
            total=observer.total,
            unpacked=observer.unpacked,
        )

    def see_release(self, release: Release) -> None:
        """Writes down the exact tables of each part, of marginals that were released.

        Args:
            release: The release of the run.
        """
        bins = self.bins
        if bins is None:
            return
        sizes = [
            *(column_bins.size for column_bins in bins),
            *(column.size for column in release.schema.layout.coded),
        ]
        cells_of_parts = [_cells(part, bins) for part in self.parts]
        for name in release.values:
            columns = list(marginal_columns(name))
            edges = [np.arange(sizes[column] + 1) for column in columns]
            tables = [
                np.histogramdd(cells[columns].T, bins=edges)[0]
                for cells in cells_of_parts
            ]
            self.sums[name] = np.stack([table.reshape(-1, 1) for table in tables])


def _cells(records: EncodedTable, bins: Sequence[NumericBins]) -> npt.NDArray[Any]:
    """Returns the cell of each record in each column, (columns, records)."""
    numeric = [
        column_bins.codes(records.numeric[:, index])
        for index, column_bins in enumerate(bins)
    ]
    return np.stack([*numeric, *records.codes.T])


def _totals_of_part(part: Any, source: Any, tasks: Mapping[str, SumTask]) -> Totals:
    """Returns the exact totals of known records.

    Args:
        part: The records; or linked tables, of which those of the link are summed that
            is asked about.
        source: The records of the gate, which say what link that is.
        tasks: The sum to take for each query, by name.
    """
    if not isinstance(source, LinkRows):
        return sum_records(part, tasks)
    with source.tables.source_of(part) as tables:
        return LocalEngine(threads=1).sum(replace(source, tables=tables), tasks, None)


@dataclass(frozen=True, kw_only=True)
class _WatchedSteps:
    """Steps whose exact vectors an observer computes and whose answers it is told; see `StepVectors`.

    The functions are those of the steps that are watched, but for the last two.
    """

    query: StepQuery
    public_settings: Mapping[str, Any]
    checked: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    probe: Callable[[Mapping[str, Any], Layout, int], None]
    read: Callable[[Transaction, PoissonSamples, Mapping[str, Any]], Any]
    total: Callable[[Any, PoissonSamples, int, Mapping[str, Any]], Integers]
    unpacked: Callable[[Integers], dict[str, Any]]


@dataclass(kw_only=True)
class _SampleObserver:
    """Tells a watch each answer, with the vectors of samples of known records.

    Attributes:
        vectors: What computes the steps: gradients, or a function of a sample.
        plan: Their plan.
        watch: The watch.
        function: Returns the vectors of samples at the parameters of a step.
        sample_vectors: Those at the parameters of the latest step.
    """

    vectors: StepVectors
    plan: Plan
    watch: Watch
    function: StepFunction
    sample_vectors: SampleVectors | None = None

    def total(
        self,
        held_records: Any,
        samples: PoissonSamples,
        number: int,
        parameters: Mapping[str, Any],
    ) -> Integers:
        """Computes the exact vector of a step, after those of known records."""
        self.sample_vectors = self.function(parameters)
        return self.vectors.total(held_records, samples, number, parameters)

    def unpacked(self, noisy_total: Integers) -> dict[str, Any]:
        """Splits the answer of a step into arrays, and tells the watch."""
        arrays = self.vectors.unpacked(noisy_total)
        assert self.sample_vectors is not None
        noisy = _flat(arrays, self.vectors.query)
        noisy /= steps_of(self.plan).noise_std_natural
        self.watch.on_step(self.plan, noisy, self.sample_vectors)
        return arrays


@dataclass(kw_only=True)
class _ShardObserver:
    """Tells a watch each answer, with the exact sums of its parts in the same shards.

    Each part is split into shards by the same random words as the records, and its
    shards are trained and asked beside theirs.

    Attributes:
        vectors: What computes the steps.
        plan: Their plan.
        watch: The watch.
        parts: Each part of the watch, with what computes the steps of it; none before
            the first step.
        sums: Exact sums of the latest step, (parts, count), in grid units.
    """

    vectors: ShardVectors
    plan: Plan
    watch: Watch
    parts: list[tuple[Records, ShardVectors]] = field(default_factory=list)
    sums: Vector = field(default_factory=lambda: np.zeros(0))

    def total(
        self,
        held_records: HeldRecords,
        samples: PoissonSamples,
        number: int,
        parameters: Mapping[str, Any],
    ) -> Integers:
        """Computes the exact sum over the asked shards, and those of each part."""
        records = held_records.all_records()
        asked_shards = self.vectors.draw_asked_shards()
        self.vectors.parameters = parameters
        if not self.parts:
            self._split(records)
        total = self.vectors.exact_vector(records, asked_shards)
        sums = []
        for part, vectors in self.parts:
            vectors.parameters = parameters
            sums.append(vectors.exact_vector(part, asked_shards))
        self.sums = np.stack(sums).astype(np.float64)
        return total

    def _split(self, records: Records) -> None:
        """Splits the records and each part into shards, by the same random words."""
        # Whoever is in a part alone has the last word, which is one more.
        word_count = len(records.numeric) + 1
        words = np.frombuffer(secrets.token_bytes(8 * word_count), dtype=np.uint64)
        seed = secrets.randbits(128)
        main = self.vectors
        main.split_and_warm_up(records, words[:-1], seed)
        for table in self.watch.parts:
            part = Records(table.numeric.astype(np.float32), table.codes)
            vectors = ShardVectors(main.query, main.teacher, device=main.device)
            vectors.parameters = main.parameters
            vectors.split_and_warm_up(part, words[: len(table)], seed)
            self.parts.append((part, vectors))

    def unpacked(self, noisy_total: Integers) -> dict[str, Any]:
        """Splits the answer of a step into arrays, and tells the watch."""
        arrays = self.vectors.unpacked(noisy_total)
        query = self.vectors.query
        noise_std = steps_of(self.plan).noise_std_natural
        exact_sums = self.sums / query.scale / noise_std
        self.watch.on_sum(self.plan, _flat(arrays, query) / noise_std, exact_sums)
        return dict(arrays)


def _gradient_function(
    vectors: GradientVectors, plan: Plan, records: EncodedTable
) -> StepFunction:
    """Returns a function that sums the clipped gradients at known records.

    Args:
        vectors: What computes the steps.
        plan: Their plan.
        records: The known records.
    """
    if vectors.represent is not None:
        records = embedded_records(records, vectors.represent)

    def vectors_at(parameters: Mapping[str, Tensor]) -> SampleVectors:
        gradients = [
            _gradient(vectors.loss, parameters, records, row)
            for row in range(len(records))
        ]
        clipped = _clipped(np.stack(gradients), plan)
        return lambda indices: np.asarray(clipped[list(indices)].sum(axis=0))

    return vectors_at


def _gradient(
    loss: RecordLoss | FactoredLoss,
    parameters: Mapping[str, Tensor],
    records: EncodedTable,
    row: int,
) -> Vector:
    """Computes the gradient of the loss at one record, (numbers,), not clipped."""
    import torch

    numeric = torch.tensor(records.numeric[row], dtype=torch.float32)
    codes = torch.tensor(records.codes[row], dtype=torch.int64)
    leaves = {
        name: value.detach().cpu().clone().requires_grad_()
        for name, value in parameters.items()
    }
    if isinstance(loss, FactoredLoss):
        (weight,) = leaves.values()
        outputs = (weight @ loss.inputs(numeric, codes)[..., None])[..., 0]
        value = loss.loss(outputs, numeric, codes)
    else:
        value = loss(leaves, numeric, codes)
    gradients = torch.autograd.grad(
        value, list(leaves.values()), allow_unused=True, materialize_grads=True
    )
    flat_gradient = torch.cat([gradient.reshape(-1) for gradient in gradients])
    return flat_gradient.detach().numpy().astype(np.float64)


def _sample_function(
    vectors: BatchVectors, plan: Plan, records: EncodedTable
) -> StepFunction:
    """Returns a function that computes the clipped vectors of samples of known records.

    Args:
        vectors: What computes the steps.
        plan: Their plan.
        records: The known records.
    """
    query = vectors.query
    numeric = records.numeric.astype(np.float32)
    codes = records.codes

    def vectors_at(parameters: Mapping[str, Any]) -> SampleVectors:
        def vector_of(indices: Sequence[int]) -> Vector:
            sample = np.array(indices, dtype=np.intp)
            copies = copy_parameters(parameters)
            try:
                arrays = vectors.vector(copies, numeric[sample], codes[sample])
                shapes = {name: tuple(value.shape) for name, value in arrays.items()}
                flat = _flat(arrays, query)
            except Exception:
                shapes = {}
                flat = np.zeros(0)
            # A sample for which the function has no vector has that of zeros (G-24).
            if shapes != query.parameters or not np.isfinite(flat).all():
                flat = np.zeros(query.count)
            return _clipped(flat, plan)

        return vector_of

    return vectors_at


def _flat(arrays: Mapping[str, Any], query: StepQuery) -> Vector:
    """Concatenates arrays or tensors in the order of the plan, to (numbers,)."""
    flat_arrays = []
    for name in query.parameters:
        array = arrays[name]
        if hasattr(array, "detach"):
            array = array.detach().cpu()
        flat_arrays.append(np.asarray(array, np.float64).reshape(-1))
    return np.concatenate(flat_arrays)


def _clipped(vectors: Vector, plan: Plan) -> Vector:
    """Clips vectors, (…, numbers), to the norm of the plan, over the deviation of its noise."""
    norms = np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-300)
    steps = steps_of(plan)
    factors = np.minimum(1.0, steps.query.clip_norm / norms)
    return np.asarray(vectors * factors / steps.noise_std_natural)
