"""A gate whose queries are watched: beside each answer, what the records that an auditor knows add to the exact sum.

What single records do to a step is computed apart from the gate, clipped in float64;
sums are the gate's own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from noisegate.gate.execution import embedded_records
from noisegate.gate.gate import Gate
from noisegate.gate.per_example.gradients import FactoredLoss, RecordLoss
from noisegate.gate.samples import Records
from noisegate.gate.session import Session, open_steps
from noisegate.gate.sessions.shards import SampleVector, ShardVectors, Teacher
from noisegate.gate.sums import (
    Engine,
    LocalEngine,
    Progress,
    SumTask,
    Totals,
    sum_records,
)
from noisegate.privacy.gradient_plan import steps_of
from noisegate.privacy.marginal_plan import marginal_columns, marginals_of
from noisegate.privacy.plan import Plan
from noisegate.privacy.release import Release
from noisegate.privacy.shard_plan import ShardQuery
from noisegate.queries.binning import NumericBins
from noisegate.schema import EncodedTable
from noisegate.sources.linked import LinkRows

if TYPE_CHECKING:
    from torch import Tensor

Vector: TypeAlias = npt.NDArray[np.float64]
Vectors: TypeAlias = Callable[[Sequence[int]], Vector]
"""The exact vector of a step's sample of known records, by their places, over the standard deviation of the noise."""


@dataclass
class Watch(Engine):
    """What an auditor writes down; also the engine of its gate."""

    parts: Sequence[
        Any
    ]  # sets of records, or of linked tables, whose exact sums are wanted, of each query
    singles: EncodedTable  # records whose samples are wanted, at each step
    on_step: Callable[[Plan, Vector, Vectors], None] = lambda *_: None
    """Called with the plan, what a step handed out over the noise, and the vectors of samples of `singles`."""
    on_sum: Callable[[Plan, Vector, Vector], None] = lambda *_: None
    """Called with the plan, and over the noise a step's sum over shards, and those of each of `parts`."""
    sums: dict[str, Vector] = field(default_factory=dict)
    """For each query, the exact sum of each part in the units of its release, (parts, dim, columns)."""
    in_parts: ClassVar[bool] = True

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Returns the exact totals over all records of `source`, as an engine does."""
        found = [_exact(part, source, tasks) for part in self.parts]
        for name, task in tasks.items():
            self.sums[name] = np.stack(
                [task.grid.restore(one.sums[name]).T for one in found]
            )
        return LocalEngine(threads=1).sum(source, tasks, progress)


class WatchedGate(Gate):
    """A gate whose queries are watched; see `Gate` for the options."""

    counted = (
        False  # an audit makes its records, and asks about them as often as it likes
    )

    def __init__(self, data: Any, *, watch: Watch, **options: Any) -> None:
        super().__init__(data, engine=watch, **options)
        self._watch = watch

    def gradients(
        self, plan: Plan, loss: RecordLoss | FactoredLoss, **options: Any
    ) -> Any:
        """Returns a session of gradients whose steps are watched."""
        records = self._watch.singles
        if options.get("represent") is not None:
            records = embedded_records(records, options["represent"])

        def vectors(parameters: Mapping[str, Tensor]) -> Vectors:
            each = np.stack(
                [
                    _gradient(loss, parameters, records, row)
                    for row in range(len(records))
                ]
            )
            each = _clipped(each, plan)
            return lambda places: np.asarray(each[list(places)].sum(axis=0))

        return _watched(
            super().gradients(plan, loss, **options), plan, vectors, self._watch
        )

    def batch(self, plan: Plan, vector: SampleVector, **options: Any) -> Any:
        """Returns a session of vectors of whole samples whose steps are watched."""
        query = steps_of(plan).query
        numeric, codes = (
            self._watch.singles.numeric.astype(np.float32),
            self._watch.singles.codes,
        )

        def copy(
            value: Any,
        ) -> (
            Any
        ):  # so that a function that writes into its arguments changes none of the run
            return (
                value.detach().clone() if hasattr(value, "detach") else np.array(value)
            )

        def vectors(parameters: Mapping[str, Any]) -> Vectors:
            def of(places: Sequence[int]) -> Vector:
                sample = np.array(places, dtype=np.intp)
                copies = {name: copy(value) for name, value in parameters.items()}
                try:
                    found = vector(copies, numeric[sample], codes[sample])
                    shapes = {name: tuple(value.shape) for name, value in found.items()}
                    flat = _flat(found, plan)
                except Exception:
                    shapes, flat = {}, np.zeros(0)
                # A sample for which the function has no vector has that of zeros (G-24).
                whole = shapes == query.parameters and bool(np.isfinite(flat).all())
                return _clipped(flat if whole else np.zeros(query.count), plan)

            return of

        return _watched(
            super().batch(plan, vector, **options), plan, vectors, self._watch
        )

    def shards(
        self,
        plan: Plan,
        teacher: Teacher,
        *,
        device: str = "cpu",
        **options: Any,
    ) -> Any:
        """Returns a session of sums over shards whose steps are watched."""
        access = self._grant_access(
            plan, ShardQuery, options["method"], options["public"]
        )
        vectors = _WatchedShards(plan, teacher, self._watch, device=device)
        return open_steps(access, vectors)

    def marginals(
        self, plan: Plan, bins: Sequence[NumericBins], **options: Any
    ) -> Release:
        """Returns noisy marginals, and writes down the exact ones of the tables that were chosen."""
        release = super().marginals(plan, bins, **options)
        numeric = [
            [one.codes(part.numeric[:, j]) for j, one in enumerate(bins)]
            for part in self._watch.parts
        ]
        codes = [
            np.stack([*each, *part.codes.T])
            for each, part in zip(numeric, self._watch.parts, strict=True)
        ]
        sizes = marginals_of(plan).sizes
        for name in release.values:
            columns = list(marginal_columns(name))
            cells = [np.arange(sizes[column] + 1) for column in columns]
            tables = [
                np.histogramdd(found[columns].T, bins=cells)[0] for found in codes
            ]
            self._watch.sums[name] = np.stack(
                [table.reshape(-1, 1) for table in tables]
            )
        return release


def _exact(part: Any, source: Any, tasks: Mapping[str, SumTask]) -> Totals:
    """Returns the exact totals of known records; of families, those of the link that is asked about."""
    if not isinstance(source, LinkRows):
        return sum_records(part, tasks)
    with source.tables.source_of(part) as tables:
        return LocalEngine(threads=1).sum(replace(source, tables=tables), tasks, None)


def _watched(
    session: Session,
    plan: Plan,
    vectors: Callable[[Mapping[str, Any]], Vectors],
    watch: Watch,
) -> Session:
    """Returns a session whose steps tell their answers with the vectors of samples at the same parameters."""
    step = session.step

    def told(parameters: Mapping[str, Any]) -> Any:
        known = vectors(parameters)
        noisy = step(parameters)
        watch.on_step(
            plan, _flat(noisy, plan) / steps_of(plan).noise_std_natural, known
        )
        return noisy

    session.step = told  # type: ignore[method-assign]
    return session


class _WatchedShards(ShardVectors):
    """Vectors of shards that tell each step's answer, beside the exact sums of other records in the same shards."""

    def __init__(
        self, plan: Plan, teacher: Teacher, watch: Watch, *, device: str
    ) -> None:
        query = cast("ShardQuery", steps_of(plan).query)
        super().__init__(query, teacher, device=device)
        self._plan = plan
        self._watch = watch
        self._shadows: list[tuple[ShardVectors, Any]] = []
        self._sums = np.zeros(0)
        self._make = partial(ShardVectors, query, teacher, device=device)

    def unpacked(self, noisy: Any) -> dict[str, Any]:
        """Returns the arrays of a step, and tells them with the exact sums of each part."""
        arrays = super().unpacked(noisy)
        std = steps_of(self._plan).noise_std_natural
        self._watch.on_sum(
            self._plan,
            _flat(arrays, self._plan) / std,
            self._sums / self.query.scale / std,
        )
        return arrays

    def _split_and_warm_up(self, records: Any, words: Any, seed: int) -> None:
        super()._split_and_warm_up(records, words, seed)
        # Whoever is in one set only has the next word, or one of its own.
        words = np.concatenate(
            [words, np.frombuffer(secrets.token_bytes(8), dtype=np.uint64)]
        )
        for part in self._watch.parts:
            shadow = self._make()
            known = Records(part.numeric.astype(np.float32), part.codes)
            shadow._parameters = self._parameters
            shadow._split_and_warm_up(known, words[: len(part)], seed)
            self._shadows.append((shadow, known))

    def _exact_vector(self, records: Any, sample: Any) -> Any:
        found = super()._exact_vector(records, sample)
        for shadow, _ in self._shadows:
            shadow._parameters = self._parameters
        self._sums = np.stack(
            [shadow._exact_vector(known, sample) for shadow, known in self._shadows]
        ).astype(np.float64)
        return found


def _flat(arrays: Mapping[str, Any], plan: Plan) -> Vector:
    found = [arrays[name] for name in steps_of(plan).query.parameters]
    parts = [
        np.asarray(one.detach().cpu() if hasattr(one, "detach") else one, np.float64)
        for one in found
    ]
    return np.concatenate([part.reshape(-1) for part in parts])


def _clipped(vectors: Vector, plan: Plan) -> Vector:
    """Returns vectors, (…, numbers), clipped to the norm of the plan, over the standard deviation of its noise."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-300)
    steps = steps_of(plan)
    return np.asarray(
        vectors
        * np.minimum(1.0, steps.query.clip_norm / lengths)
        / steps.noise_std_natural
    )


def _gradient(
    loss: RecordLoss | FactoredLoss,
    parameters: Mapping[str, Tensor],
    records: EncodedTable,
    row: int,
) -> Vector:
    import torch

    numeric = torch.tensor(records.numeric[row], dtype=torch.float32)
    codes = torch.tensor(records.codes[row], dtype=torch.int64)
    own = {
        name: value.detach().cpu().clone().requires_grad_()
        for name, value in parameters.items()
    }
    if isinstance(loss, FactoredLoss):
        (weight,) = own.values()
        value = loss.loss(
            (weight @ loss.inputs(numeric, codes)[..., None])[..., 0], numeric, codes
        )
    else:
        value = loss(own, numeric, codes)
    found = torch.autograd.grad(
        value, list(own.values()), allow_unused=True, materialize_grads=True
    )
    return (
        torch.cat([one.reshape(-1) for one in found])
        .detach()
        .numpy()
        .astype(np.float64)
    )
