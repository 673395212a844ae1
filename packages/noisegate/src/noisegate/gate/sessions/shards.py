"""Steps over shards and over whole samples: vectors that no single record makes.

`ShardSession` splits the records into disjoint shards, once. Each shard trains a state
of its own, by a public schedule, and in each step some shards are asked for one vector;
the clipped vectors are summed (G-26). A record moves the vector of its own shard
alone::

    record's own word ──► shard ──► its state ──► its vector ──► clipped ──► sum
                                     ▲ learns, by a public schedule

What a shard does is written for a single one, as a `Teacher`; torch maps it over all.

`BatchSession` clips one vector of a whole sample in each step, which may be any
function of it (G-24).
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.execution import made_up_records
from noisegate.gate.samples import Records, as_floats
from noisegate.gate.session import Access, Integers
from noisegate.gate.sessions.gradients import SampleSession
from noisegate.privacy.gradient_plan import RATES
from noisegate.schema import Layout

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped
    from torch import Tensor

Tensors: TypeAlias = Mapping[str, "Tensor"]
"""Arrays by name. What shards keep has, for all shards together, one more axis in
front."""

# Shards that are computed at once; the last block is smaller. It is fixed, so that a
# shard has the same position in its block every time.
_SHARDS_PER_BLOCK = 64
# Shards of the probe: one whose records are exchanged, one beside it whose vector must
# stay the same, and one without records.
_PROBE_SHARDS = 3
# Records of the probe for each of these shards, together in those that are not empty.
_PROBE_RECORDS = 4
# How often the shards of the probe learn: the second time shows what they have kept.
_PROBE_LEARNINGS = 2
# Seeds of the probe: of its parameters, its records, those that the first shard has in
# their place, and the draws within shards.
_PARAMETERS_SEED = 20240229
_RECORDS_SEED = 5
_OTHER_RECORDS_SEED = 6
_DRAWS_SEED = 7


class ShardBatch(NamedTuple):
    """What a shard sees of its records in a round.

    Attributes:
        numeric: Numeric columns of records drawn with replacement, (records, columns)
            float32; zeros if the shard has none.
        codes: Coded columns of the same, (records, columns) int64; zeros likewise.
        held: 1.0 if the shard has any record, else 0.0.
    """

    numeric: Tensor
    codes: Tensor
    held: Tensor


class Teacher(Protocol):
    """What one shard learns and answers, written for a single one.

    `torch.vmap` makes all shards do it. What is mapped is a function of its arguments
    and keeps nothing. Random operations of torch are allowed in `loss` and `answer`:
    every shard draws its own numbers.

    Attributes:
        records: How many records of its own a shard sees in a round, drawn with
            replacement.
        rounds: How many gradients of its loss, each on other records, it follows each
            time that it learns.
        learning: How many shards learn in a step, in turn; None for all of them.
        warm_up: How often every shard learns before the first step.
    """

    @property
    def records(self) -> int: ...  # noqa: D102
    @property
    def rounds(self) -> int: ...  # noqa: D102
    @property
    def learning(self) -> int | None: ...  # noqa: D102
    @property
    def warm_up(self) -> int: ...  # noqa: D102

    def start(self, shards: int) -> tuple[Tensors, Tensors]:
        """Returns the state of shards before they saw any record.

        Args:
            shards: How many shards.

        Returns:
            Their weights, and what else they keep, such as the state of an optimizer;
            (shards, …) each.
        """
        ...

    def loss(
        self, weights: Tensors, parameters: Tensors, batch: ShardBatch
    ) -> Float[Tensor, ""]:
        """Returns the loss of one shard on some of its records, differentiable.

        Args:
            weights: The shard's weights.
            parameters: Public parameters of the step.
            batch: Some of its records.
        """
        ...

    def step(
        self, weights: Tensors, kept: Tensors, gradients: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Updates one shard by the gradients of its loss.

        Args:
            weights: The shard's weights.
            kept: What else it keeps.
            gradients: Of the loss with respect to the weights, by name.

        Returns:
            Its weights, and what else it keeps, afterwards.
        """
        ...

    def answer(
        self, weights: Tensors, parameters: Tensors, batch: ShardBatch
    ) -> Tensors:
        """Returns the vector of one shard, arrays of the planned shapes, by name.

        Args:
            weights: The shard's weights.
            parameters: Public parameters of the step.
            batch: Some of its records.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class _Split:
    """Which records are in which shard; private.

    The word of a record is a random number of 64 bits, drawn for it alone. It decides
    on the record's shard for the whole run.
    """

    order: npt.NDArray[np.intp]
    """Indices of the records, shard by shard, (records,)."""
    first: npt.NDArray[np.intp]
    """Where each shard begins in `order`, (shards,)."""
    sizes: npt.NDArray[np.intp]
    """Number of records of each shard, (shards,)."""

    @classmethod
    def of(cls, words: npt.NDArray[np.uint64], shards: int) -> _Split:
        """Splits records by their words, whoever else is there.

        A record is in the shard that its word leaves as the remainder. So it moves no
        other record when it comes or goes, which shards of equal sizes would need.
        `test_a_record_is_in_one_shard_and_those_of_others_stay_where_they_are` watches
        over this.

        Args:
            words: A uniform word of each record, 64 bits, (records,).
            shards: Number of shards.

        Examples:
            >>> import numpy as np
            >>> from noisegate.gate.sessions.shards import _Split
            >>> split = _Split.of(np.array([1, 0, 3], dtype=np.uint64), 2)
            >>> split.order.tolist(), split.first.tolist(), split.sizes.tolist()
            ([1, 0, 2], [0, 1], [1, 2])
        """
        shard_of_record = (words % np.uint64(shards)).astype(np.intp)
        sizes = np.bincount(shard_of_record, minlength=shards).astype(np.intp)
        return cls(
            order=np.argsort(shard_of_record, kind="stable"),
            first=np.cumsum(sizes) - sizes,
            sizes=sizes,
        )

    def draw_records(self, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """Draws records of each shard, with replacement.

        Args:
            uniform: Numbers in [0, 1), (shards, draws).

        Returns:
            Indices of records, (shards, draws); of an empty shard any record's.
        """
        # Both minima are against rounding up, and keep empty shards within `order`.
        within_shard = np.minimum(
            (uniform * self.sizes[:, None]).astype(np.intp),
            np.maximum(self.sizes - 1, 0)[:, None],
        )
        last = len(self.order) - 1
        return self.order[np.minimum(self.first[:, None] + within_shard, last)]


class ShardSession(SampleSession):
    """The steps of one plan of shards, to be had from `Gate.shards`.

    Args:
        access: What the gate grants; its plan is that of a `ShardPlan`.
        teacher: What a shard learns and answers.
        device: Where torch computes.
    """

    def __init__(
        self, access: Access, teacher: Teacher, *, device: str = "cpu"
    ) -> None:
        plan = access.plan.plan
        super().__init__(
            access,
            {
                "norm": plan.clip_norm,
                "shards": plan.shards,
                "nonnegative": plan.nonnegative,
            },
        )
        self._teacher = teacher
        self._device = device
        # Who is in which shard, from the first step on.
        self._split: _Split | None = None
        # Weights of all shards, and what else they keep, (shards, …) each; private.
        self._states: tuple[Tensors, Tensors] = {}, {}
        # The shard whose turn it is to learn.
        self._next_to_learn = 0
        self._random = np.random.default_rng()

    def _checked_parameters(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns copies of the parameters as tensors on the session's device."""
        import torch

        return {
            name: torch.as_tensor(value).detach().to(self._device)
            for name, value in copy_parameters(parameters).items()
        }

    def _sample(self, records: int, number: int) -> npt.NDArray[np.intp]:
        """Draws which shards are asked in a step.

        Each is asked if its own 32-bit word, fresh in every step, is below the sampling
        probability times 2³².

        Args:
            records: Number of records; not used.
            number: Number of the step; not used.

        Returns:
            Indices of shards, ascending; private.
        """
        plan = self._step_plan
        words = np.frombuffer(
            secrets.token_bytes(4 * plan.shards), dtype=np.uint32
        ).astype(np.uint64)
        return np.flatnonzero(words < int(plan.sampling_probability * RATES))

    def _exact_vector(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        """Lets shards learn, and sums the clipped vectors of those that are asked.

        Args:
            records: All records.
            sample: Indices of the shards that are asked.

        Returns:
            The exact sum, (count,), in grid units; private.
        """
        shards = self._step_plan.shards
        if self._split is None:
            # A word of each record decides on its shard: a record that comes or goes
            # moves no other one.
            words = np.frombuffer(
                secrets.token_bytes(8 * len(records[0])), dtype=np.uint64
            )
            self._split_and_warm_up(records, words, secrets.randbits(128))

        if self._teacher.learning is None:
            learner_count = shards
        else:
            learner_count = min(self._teacher.learning, shards)
        # Who learns is a public schedule, which knows nothing of who is asked.
        learners = np.sort((self._next_to_learn + np.arange(learner_count)) % shards)
        self._train_shards(records, learners)
        self._next_to_learn = (self._next_to_learn + learner_count) % shards
        clipped_answers = self._clipped_answers(records, sample)
        return np.asarray(clipped_answers.sum(axis=0, dtype=np.int64))

    def _split_and_warm_up(
        self, records: Records, words: npt.NDArray[np.uint64], seed: int
    ) -> None:
        """Splits the records, and lets every shard learn before the first step.

        It is called once, in the first step. Neither split nor states are written
        anywhere, so a run that was interrupted cannot be resumed.

        Args:
            records: All records.
            words: A uniform word of each, (records,).
            seed: Seeds the draws within shards.
        """
        self._start_shards(words, seed)
        for _ in range(self._teacher.warm_up):
            self._train_shards(records, np.arange(self._step_plan.shards))

    def _start_shards(self, words: npt.NDArray[np.uint64], seed: int) -> None:
        """Splits the records by their words, and starts every shard.

        What shards had learnt before is lost. The probe starts them on made-up records,
        and the first step on the private ones.

        Args:
            words: A uniform word of each record, (records,).
            seed: Seeds the draws within shards.
        """
        shards = self._step_plan.shards
        self._split = _Split.of(words, shards)
        self._random = np.random.Generator(np.random.Philox(seed))
        weights, other_state = self._teacher.start(shards)
        self._states = (
            _apply_to_each(weights, lambda value: value.to(self._device)),
            _apply_to_each(other_state, lambda value: value.to(self._device)),
        )

    def _train_shards(self, records: Records, learners: npt.NDArray[np.intp]) -> None:
        """Lets shards follow gradients of their losses, and updates their states.

        A block of shards is updated before the next is computed. No shard reads the
        state of another, so the order of the blocks changes nothing.

        Args:
            records: All records.
            learners: Indices of the shards, ascending.
        """
        import torch

        for _ in range(self._teacher.rounds):
            for shard_indices, batch in self._batches(records, learners):
                weights, other_state = (
                    _rows(state, shard_indices) for state in self._states
                )
                leaves = _apply_to_each(
                    weights, lambda value: value.detach().requires_grad_()
                )
                losses = self._map_over_shards(
                    self._teacher.loss,
                    leaves,
                    dict(self._parameters),
                    batch,
                    dims=(0, None, 0),
                )
                # Each loss depends on the weights of its own shard alone, so the
                # gradient of the sum is that of each.
                gradients = torch.autograd.grad(
                    losses.sum(),
                    list(leaves.values()),
                    allow_unused=True,
                    materialize_grads=True,
                )
                updated_states = self._map_over_shards(
                    self._teacher.step,
                    _apply_to_each(leaves, lambda value: value.detach()),
                    other_state,
                    dict(zip(leaves, gradients, strict=True)),
                )
                # The rows of these shards are written into the states of all.
                for state, updated in zip(self._states, updated_states, strict=True):
                    for name, value in updated.items():
                        state[name][shard_indices] = value

    def _clipped_answers(
        self, records: Records, asked_shards: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.int32]:
        """Returns the clipped vectors of shards, each of its own records alone.

        Args:
            records: All records.
            asked_shards: Indices of the shards.

        Returns:
            One row for each, (asked_shards, count), in grid units, of norm at most
            `UNITS`.

        Raises:
            OptionError: if the teacher returns other shapes than were planned.
        """
        plan = self._step_plan
        rows = [np.zeros((0, plan.count), dtype=np.int32)]
        for shard_indices, batch in self._batches(records, asked_shards):
            weights = _rows(self._states[0], shard_indices)
            vectors = self._map_over_shards(
                self._teacher.answer,
                weights,
                dict(self._parameters),
                batch,
                dims=(0, None, 0),
            )
            shapes = {name: tuple(value.shape[1:]) for name, value in vectors.items()}
            if shapes != dict(plan.parameters):
                raise OptionError(
                    f"the answers of {plan.name!r} have shapes {shapes}, the plan "
                    f"{plan.parameters}."
                )
            parts = [
                vectors[name]
                .reshape(len(shard_indices), -1)
                .detach()
                .float()
                .cpu()
                .numpy()
                for name in plan.parameters
            ]
            flat_vectors = np.ascontiguousarray(np.concatenate(parts, axis=1))
            rows.append(plan.grid.quantise(flat_vectors))
        return np.concatenate(rows)

    def _batches(
        self, records: Records, chosen_shards: npt.NDArray[np.intp]
    ) -> Iterator[tuple[Int64[Tensor, " shards"], ShardBatch]]:
        """Yields shards in blocks, with some records of each.

        Records are drawn for all shards alike, whichever are chosen, so that the draws
        of one shard never depend on another.

        Args:
            records: All records.
            chosen_shards: Indices of the shards.

        Yields:
            Indices of the shards of a block, and their records, (shards, records,
            columns) each.
        """
        import torch

        assert self._split is not None
        draws = self._teacher.records
        uniform = self._random.random((self._step_plan.shards, draws))
        drawn_records = self._split.draw_records(uniform)
        for start in range(0, len(chosen_shards), _SHARDS_PER_BLOCK):
            shard_indices = chosen_shards[start : start + _SHARDS_PER_BLOCK]
            has_records = (self._split.sizes[shard_indices] > 0).astype(np.float32)
            record_indices = drawn_records[shard_indices].reshape(-1)
            is_real = has_records.repeat(draws)[:, None]  # 0 for an empty shard's
            numeric = as_floats(records[0][record_indices])
            numeric_or_zero = np.where(is_real > 0, numeric, np.float32(0))
            codes = records[1][record_indices].astype(np.int64)
            codes_or_zero = codes * is_real.astype(np.int64)
            shape = (len(shard_indices), draws, -1)
            batch = ShardBatch(
                numeric=self._tensor(numeric_or_zero.reshape(shape)),
                codes=self._tensor(codes_or_zero.reshape(shape)),
                held=self._tensor(has_records),
            )
            yield torch.from_numpy(shard_indices), batch

    def _tensor(self, values: npt.NDArray[Any]) -> Shaped[Tensor, "*shape"]:
        """Copies an array to the device of the session."""
        import torch

        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)

    def _map_over_shards(
        self, function: Callable[..., Any], *arguments: Any, dims: Any = 0
    ) -> Any:
        """Calls a function of one shard for all shards of a block at once.

        Args:
            function: Of one shard.
            arguments: Arguments for all shards.
            dims: Which axis of the arguments is that of shards; None for arguments that
                all shards have in common.

        Returns:
            Results, with an axis of shards in front.
        """
        import torch

        # Whether a user sees a warning must not depend on a record. Random numbers of
        # torch come from a stream of this session, and leave that of the caller as is.
        with (
            warnings.catch_warnings(action="ignore"),
            torch.random.fork_rng(devices=[]),
        ):
            torch.manual_seed(int(self._random.integers(2**63)))
            mapped_function = torch.vmap(function, in_dims=dims, randomness="different")
            return mapped_function(*arguments)

    def _probe(self) -> None:
        """Tries the teacher on made-up records: a shard's vector is its own.

        Three times the shards start, learn and answer. The second time, the first shard
        has other records: only its own vector may change. The third time all is as at
        first, and so must be the vectors. The last shard is empty. Example, of a vector
        of one number::

            shard                              0    1    2 (empty)
            usual records                     17   -4    0
            other records in the first shard   9   -4    0
            usual records again               17   -4    0

        The parameters, the split and the states of this session are those of the probe
        meanwhile, and afterwards as before, since it is called before the first step.
        After an error they stay those of the probe; the next call of `prepare_steps`
        sets the parameters and calls the probe anew.

        Raises:
            OptionError: if another shard's records change a vector, or it changes each
                time, or the teacher returns other shapes than were planned.
        """
        plan = self._step_plan
        layout = self._access.source.schema.layout
        parameters = self._parameters
        random = np.random.Generator(np.random.Philox(_PARAMETERS_SEED))
        # At the parameters of a first step, many are zero, and hide what they multiply.
        self._parameters = {
            name: move_slightly(value, random) for name, value in parameters.items()
        }
        first, with_other_records, again = (
            self._probe_answers(layout, first_shard_seed)
            for first_shard_seed in (_RECORDS_SEED, _OTHER_RECORDS_SEED, _RECORDS_SEED)
        )
        # No split: the first step draws the words of the private records.
        self._parameters = parameters
        self._split = None
        self._states = ({}, {})

        # Before the other comparison, in which a teacher with a memory fails too.
        if not np.array_equal(first, again):
            raise OptionError(
                f"the teacher of {plan.name!r} gives a shard another vector each time. "
                "What it returns must follow from its arguments and torch's random "
                "operations: let it keep nothing between calls."
            )
        if not np.array_equal(first[1:], with_other_records[1:]):
            raise OptionError(
                f"the teacher of {plan.name!r} gives a shard another vector when "
                "another shard has other records; write it for a single shard, of its "
                "arguments alone."
            )

    def _probe_answers(
        self, layout: Layout, first_shard_seed: int
    ) -> npt.NDArray[np.int32]:
        """Starts the shards on made-up records, lets them learn, and asks all of them.

        Overwrites the split, the states and the random numbers of this session; which
        shard learns next stays as it is.

        Args:
            layout: Columns of the records.
            first_shard_seed: Seed of the records of the first shard. The other shards
                have the same records each time, those of `_RECORDS_SEED`.

        Returns:
            One row for each shard, (shards, count), in grid units. The last shard has
            no records, unless it is the only one.
        """
        plan = self._step_plan
        probed_shards = min(plan.shards, _PROBE_SHARDS)
        record_count = _PROBE_RECORDS * probed_shards
        usual_records, first_shard_records = (
            made_up_records(
                layout, record_count, np.random.Generator(np.random.Philox(seed))
            )
            for seed in (_RECORDS_SEED, first_shard_seed)
        )
        # The remainder of a word is the shard of a record, and here the word itself:
        # 0, 1, 0, 1, … for three shards. The last one stays empty, as a shard may be
        # among private records, and a teacher has to answer then too.
        filled_shards = max(probed_shards - 1, 1)
        words = np.arange(record_count, dtype=np.uint64) % np.uint64(filled_shards)
        in_first_shard = (words == 0)[:, None]
        # Row by row the one or the other, so that no record of another shard moves.
        numeric = np.where(
            in_first_shard, first_shard_records.numeric, usual_records.numeric
        )
        codes = np.where(in_first_shard, first_shard_records.codes, usual_records.codes)
        records = Records(numeric.astype(np.float32), codes)

        self._start_shards(words, _DRAWS_SEED)
        # Once more, as tests have `_start_shards` split by words of their own, which
        # are none of the probe's.
        self._split = _Split.of(words, plan.shards)
        asked_shards = np.arange(probed_shards)
        for _ in range(_PROBE_LEARNINGS):
            self._train_shards(records, asked_shards)
        return self._clipped_answers(records, asked_shards)


def _apply_to_each(
    tensors: Tensors, function: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """Returns what a function makes of each tensor, by name."""
    return {name: function(value) for name, value in tensors.items()}


def _rows(tensors: Tensors, indices: Int64[Tensor, " rows"]) -> dict[str, Tensor]:
    """Returns some rows of each tensor, by name."""
    return {name: value[indices] for name, value in tensors.items()}


SampleVector: TypeAlias = Callable[
    [Mapping[str, Any], npt.NDArray[np.float32], npt.NDArray[np.int32]],
    Mapping[str, Any],
]
"""From public parameters, and the numeric and coded columns of a sample, (records,
columns) each, to arrays of the planned shapes, by name."""

# Records of the made-up samples: an empty one and a single record may get another shape
# than others. The first comes again at the end, to see whether the function remembers
# the others in between.
_PROBE_SAMPLE_SIZES = (7, 0, 1, 12, 7)


class BatchSession(SampleSession):
    """The steps of one plan of whole samples, to be had from `Gate.batch`.

    Args:
        access: What the gate grants; its plan is that of a `BatchPlan`.
        vector: The function of a sample. It draws no randomness but from a generator
            that it makes anew, and keeps nothing from one call to the next.
        journal: File that counts steps across interruptions, if any.

    Raises:
        OptionError: if there is a journal and the samples are shards.
    """

    def __init__(
        self, access: Access, vector: SampleVector, *, journal: Path | None = None
    ) -> None:
        plan = access.plan.plan
        if journal is not None and plan.shards > 1:
            raise OptionError(
                "journal: a run on shards cannot be resumed, as who is in which one is "
                "private and kept in memory; use Poisson samples (shards=1), or leave "
                "out the journal."
            )
        super().__init__(
            access,
            {"norm": plan.clip_norm, "whole": True, "shards": plan.shards},
            journal=journal,
        )
        self._vector = vector
        # The shard of each record, (records,); None before the first step.
        self._shards: npt.NDArray[np.uint64] | None = None

    def _sample(self, records: int, number: int) -> npt.NDArray[np.intp]:
        """Draws a Poisson sample, or takes the next shard in turn.

        Args:
            records: Number of records; private.
            number: Number of the step, from 0.

        Returns:
            Indices of the records, ascending; private.
        """
        shards = self._step_plan.shards
        if shards == 1:
            return super()._sample(records, number)
        if self._shards is None:
            # A word of each record decides on its shard: a record that comes or goes
            # moves no other one.
            words = np.frombuffer(secrets.token_bytes(8 * records), dtype=np.uint64)
            self._shards = words % np.uint64(shards)
        return np.flatnonzero(self._shards == number % shards)

    def _exact_vector(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        """Computes and clips the vector of a sample; zeros if the function fails.

        The function may be any one, and whether it fails may depend on one record. So a
        failure is neither told nor stops the step: zeros are a vector like others, to
        which the same noise is added (G-24).

        Args:
            records: All records.
            sample: Indices of the records in the sample.

        Returns:
            The exact vector, (count,), in grid units; private.
        """
        numeric, codes = records
        with warnings.catch_warnings(action="ignore"):
            try:
                return self._clipped(
                    self._parameters,
                    as_floats(numeric[sample]),
                    codes[sample],
                    "a sample",
                )
            except Exception:
                return np.zeros(self._step_plan.count, dtype=np.int64)

    def _clipped(
        self,
        parameters: Mapping[str, Any],
        numeric: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int32],
        name: str,
    ) -> Integers:
        """Computes the vector of a sample, and clips it on the grid.

        Args:
            parameters: Public parameters, of which the function gets copies.
            numeric: Numeric columns of the sample, (records, columns).
            codes: Coded columns of the sample, (records, columns).
            name: What messages call the sample.

        Returns:
            The vector, (count,), in grid units, of norm at most `UNITS`.

        Raises:
            OptionError: if the function returns other shapes than were planned.
        """
        plan = self._step_plan
        vector = self._vector(copy_parameters(parameters), numeric, codes)
        arrays = {key: _as_float_array(value) for key, value in vector.items()}
        shapes = {key: value.shape for key, value in arrays.items()}
        if shapes != plan.parameters:
            raise OptionError(
                f"the function of {plan.name!r} returned other shapes than "
                f"{dict(plan.parameters)} for {name}; they must not depend on the "
                "sample, be it empty."
            )
        row = np.concatenate([arrays[key].reshape(-1) for key in plan.parameters])
        return np.asarray(plan.grid.quantise(row[None])[0].astype(np.int64))

    def _probe(self) -> None:
        """Tries the function on made-up samples of several sizes, one of them empty.

        Raises:
            OptionError: if it gives a sample another vector after others, or another
                shape.
        """
        layout = self._access.source.schema.layout
        plan = self._step_plan
        # Near the parameters of the first step, where less is zero than at them.
        random = np.random.Generator(np.random.Philox(_PARAMETERS_SEED))
        parameters = {
            name: move_slightly(value, random)
            for name, value in copy_parameters(self._parameters).items()
        }
        # The first vector of a sample of each size.
        vectors: dict[int, Integers] = {}
        for size in _PROBE_SAMPLE_SIZES:
            # The size is the seed, so samples of one size have the same records.
            records = made_up_records(
                layout, size, np.random.Generator(np.random.Philox(size))
            )
            vector = self._clipped(
                parameters,
                records.numeric.astype(np.float32),
                records.codes,
                f"a sample of {size} made-up records",
            )
            first_vector = vectors.setdefault(size, vector)
            if not np.array_equal(first_vector, vector):
                raise OptionError(
                    f"the function of {plan.name!r} gives a sample another vector when "
                    "it was called with others in between, or each time. What it "
                    "returns must follow from the sample and the parameters alone: let "
                    "it keep nothing between calls, and draw from no generator that "
                    "lives on."
                )


def _as_float_array(value: Any) -> npt.NDArray[np.float64]:
    """Returns an array or a tensor of any device as float64."""
    if hasattr(value, "detach"):
        return np.asarray(value.detach().cpu(), dtype=np.float64)
    return np.asarray(value, dtype=np.float64)


def copy_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Copies parameters, so that what a function writes into them is lost.

    Otherwise it could leave there what it saw of a sample.

    Args:
        parameters: Arrays or tensors, by name.
    """
    return {
        name: value.detach().clone() if hasattr(value, "detach") else np.array(value)
        for name, value in parameters.items()
    }


def move_slightly(value: Any, random: np.random.Generator) -> Any:
    """Moves floats a little, so that a function is not tried only at its start.

    Args:
        value: An array or a tensor.
        random: Draws the changes, whose standard deviation is 0.02.

    Returns:
        The changed value; integers as they are. Numbers are drawn for these too, so
        that the changes of later values do not depend on types.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.sessions.shards import move_slightly
        >>> move_slightly(np.array([3, 4]), np.random.default_rng(0)).tolist()
        [3, 4]
        >>> move_slightly(np.zeros(2), np.random.default_rng(0)).round(4).tolist()
        [0.0025, -0.0026]
    """
    noise = 0.02 * random.standard_normal(tuple(value.shape))
    if hasattr(value, "detach"):
        return value + value.new_tensor(noise) if value.is_floating_point() else value
    if np.issubdtype(value.dtype, np.floating):
        return (value + noise).astype(value.dtype)
    return value
