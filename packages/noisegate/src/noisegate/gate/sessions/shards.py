"""Steps whose vectors are computed from many records: of a shard, or a whole sample.

`ShardVectors` splits the records into disjoint shards, once and at random. Each shard
trains a model of its own, in turns that are public. In each step a random set of shards
is asked for one vector each, and the clipped vectors are summed (G-26). A record can
change the vector of its own shard only::

    record's random word ──► shard ──► its state ──► its vector ──► clipped ──► sum
                                       ▲ is trained, in turns that are public

What a shard does is written for one shard, as a `Teacher`; torch maps it over all.

`BatchVectors` clips one vector of a whole sample in each step, which may be any
function of the sample (G-24).
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.execution import made_up_records
from noisegate.gate.samples import HeldRecords, PoissonSamples, Records, as_floats
from noisegate.gate.transaction import Integers, Transaction
from noisegate.privacy.gradient_plan import RATES
from noisegate.privacy.shard_plan import BatchQuery, ShardQuery
from noisegate.schema import Layout

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped
    from torch import Tensor

Tensors: TypeAlias = Mapping[str, "Tensor"]
"""Tensors by name. Those of several shards together have one more axis in front, that
of the shards."""

# Number of shards that are computed at once; the last block has fewer.
_SHARDS_PER_BLOCK = 64
# The probe has three shards: one whose records are exchanged, one whose vector must
# stay the same, and one without records.
_PROBE_SHARDS = 3
# The probe has four times as many records as shards; the empty shard gets none of them.
_PROBE_RECORDS = 4
# In the probe, shards are trained twice: the second time shows what they have kept.
_PROBE_LEARNINGS = 2
# Seeds of the probe: of its parameters, its records, those that the first shard has in
# their place, and the draws within shards.
_PARAMETERS_SEED = 20240229
_RECORDS_SEED = 5
_OTHER_RECORDS_SEED = 6
_DRAWS_SEED = 7


class ShardBatch(NamedTuple):
    """Records of one shard, drawn from it at random with replacement.

    Attributes:
        numeric: Their numeric columns, (records, columns) float32; zeros if the shard
            has no records.
        codes: Their coded columns, (records, columns) int64; zeros if the shard has no
            records.
        held: 1.0 if the shard has any record, else 0.0.
    """

    numeric: Tensor
    codes: Tensor
    held: Tensor


class Teacher(Protocol):
    """How a shard trains its model, and what it answers; written for one shard.

    A shard is one of several disjoint sets of records, with a model of its own.
    `torch.vmap` calls `loss`, `step` and `answer` for all shards at once. So they must
    be functions of their arguments, and keep nothing from one call to the next. Random
    operations of torch are allowed in `loss` and `answer`: every shard draws its own
    numbers.

    Attributes:
        records: How many records a shard draws for each gradient or answer, with
            replacement, from its own.
        rounds: How many gradient steps a shard takes each time that it is trained.
        learning: How many shards are trained in a step, in turn; None for all of them.
        warm_up: How often every shard is trained before the first step.
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
        """Returns the initial state of all shards.

        Args:
            shards: Number of shards.

        Returns:
            The weights of their models; and what else a shard keeps, such as the state
            of an optimizer. Tensors of shape (shards, …), by name.
        """
        ...

    def loss(
        self, weights: Tensors, parameters: Tensors, batch: ShardBatch
    ) -> Float[Tensor, ""]:
        """Computes the loss of one shard on some of its records, differentiably.

        Args:
            weights: Weights of the shard's model, by name.
            parameters: Public parameters of the step, by name.
            batch: Some of the shard's records.

        Returns:
            The loss, a scalar.
        """
        ...

    def step(
        self, weights: Tensors, kept: Tensors, gradients: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Updates the state of one shard by the gradients of its loss.

        Args:
            weights: Weights of the shard's model, by name.
            kept: What else the shard keeps, by name, such as the state of an optimizer.
            gradients: Gradients of the loss with respect to the weights, by name.

        Returns:
            The updated weights, and what else the shard keeps.
        """
        ...

    def answer(
        self, weights: Tensors, parameters: Tensors, batch: ShardBatch
    ) -> Tensors:
        """Computes the vector that one shard answers with; it is clipped afterwards.

        Args:
            weights: Weights of the shard's model, by name.
            parameters: Public parameters of the step, by name.
            batch: Some of the shard's records.

        Returns:
            The vector, as tensors of the planned shapes, by name.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class _Split:
    """Which records are in which shard; private.

    A shard is one of several disjoint sets of records. Each record has a random word of
    64 bits of its own, which decides on its shard for the whole run.
    """

    order: npt.NDArray[np.intp]
    """Indices of the records, shard by shard, (records,)."""
    starts: npt.NDArray[np.intp]
    """Position in `order` of the first record of each shard, (shards,)."""
    sizes: npt.NDArray[np.intp]
    """Number of records of each shard, (shards,)."""

    @classmethod
    def of(cls, words: npt.NDArray[np.uint64], shards: int) -> _Split:
        """Splits records into shards by their random words.

        The shard of a record is its word modulo the number of shards. So it depends on
        no other record: when a record is added or removed, all others stay where they
        are. With shards of equal sizes they would not.
        `test_a_record_is_in_one_shard_and_those_of_others_stay_where_they_are` notices
        if this changes.

        Args:
            words: A uniform word of 64 bits for each record, (records,).
            shards: Number of shards.

        Examples:
            >>> import numpy as np
            >>> from noisegate.gate.sessions.shards import _Split
            >>> split = _Split.of(np.array([1, 0, 3], dtype=np.uint64), 2)
            >>> split.order.tolist(), split.starts.tolist(), split.sizes.tolist()
            ([1, 0, 2], [0, 1], [1, 2])
        """
        shard_of_record = (words % np.uint64(shards)).astype(np.intp)
        sizes = np.bincount(shard_of_record, minlength=shards).astype(np.intp)
        return cls(
            order=np.argsort(shard_of_record, kind="stable"),
            starts=np.cumsum(sizes) - sizes,
            sizes=sizes,
        )

    def draw_records(self, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """Draws records from each shard, with replacement.

        Args:
            uniform: Uniform numbers in [0, 1), (shards, draws).

        Returns:
            Indices of the drawn records, (shards, draws). For an empty shard they are
            of records of other shards, which the caller must not use.
        """
        # Both minima keep positions valid: where the product rounds up to the size of a
        # shard, and for empty shards, which may begin behind the last record.
        within_shard = np.minimum(
            (uniform * self.sizes[:, None]).astype(np.intp),
            np.maximum(self.sizes - 1, 0)[:, None],
        )
        last = len(self.order) - 1
        return self.order[np.minimum(self.starts[:, None] + within_shard, last)]


def _read_here(transaction: Transaction) -> HeldRecords:
    """Reads all records into the memory of this process, as one part."""
    access = transaction.access
    held_records = HeldRecords()
    held_records.add_part(0, access.source, access.progress)
    return held_records


class ShardVectors:
    """Sums of one vector of each queried shard; see `StepVectors`.

    All records are held in the memory of this process.

    Args:
        query: The steps, as they were asked for.
        teacher: How a shard trains its model, and what it answers.
        device: Device on which torch computes.
    """

    def __init__(
        self, query: ShardQuery, teacher: Teacher, *, device: str = "cpu"
    ) -> None:
        self.query = query
        self.teacher = teacher
        self.device = device
        self.parameters: Tensors = {}
        """Parameters of the latest step, by name."""
        # Which records are in which shard; None before the first step.
        self._split: _Split | None = None
        # The weights of all shards, and what else they keep, (shards, …) each; private.
        self._states: tuple[Tensors, Tensors] = {}, {}
        # Index of the next shard to be trained, as shards take turns.
        self._next_to_learn = 0
        # Draws records within shards, and seeds torch; replaced by `_start_shards`.
        self._random = np.random.default_rng()

    @property
    def public_settings(self) -> dict[str, Any]:
        """Norm, number and signs of the shards' vectors, for the certificate."""
        return {
            "norm": self.query.clip_norm,
            "shards": self.query.shards,
            "nonnegative": self.query.nonnegative,
        }

    def checked(self, parameters: Mapping[str, Any]) -> Tensors:
        """Copies the parameters of a step to tensors on the device of the session."""
        import torch

        return {
            name: torch.as_tensor(value).detach().to(self.device)
            for name, value in copy_parameters(parameters).items()
        }

    def read(
        self, transaction: Transaction, samples: PoissonSamples, parameters: Tensors
    ) -> HeldRecords:
        """Reads all records into the memory of this process; see `StepVectors`."""
        return _read_here(transaction)

    def total(
        self,
        held_records: HeldRecords,
        samples: PoissonSamples,
        number: int,
        parameters: Tensors,
    ) -> Integers:
        """Draws which shards are asked, and sums their vectors exactly.

        Args:
            held_records: All records; private.
            samples: Not used: shards are sampled, not records.
            number: Number of the step; not used.
            parameters: Parameters of the step, by name.

        Returns:
            The exact sum of the clipped vectors, (count,), in grid units; private.
        """
        self.parameters = parameters
        return self.exact_vector(held_records.all_records(), self.draw_asked_shards())

    def unpacked(self, noisy: Integers) -> dict[str, npt.NDArray[np.float32]]:
        """Splits the noisy vector of a step into arrays, in the units of the vectors.

        Args:
            noisy: The vector in grid units, (count,).
        """
        return self.query.unpack(noisy)

    def draw_asked_shards(self) -> npt.NDArray[np.intp]:
        """Draws which shards are asked for a vector in a step.

        Each shard is asked with the same probability, independently of the others: if a
        fresh random word of 32 bits is below the sampling probability times 2³².

        Returns:
            Indices of the shards, ascending; private.
        """
        query = self.query
        words = np.frombuffer(
            secrets.token_bytes(4 * query.shards), dtype=np.uint32
        ).astype(np.uint64)
        return np.flatnonzero(words < int(query.sampling_probability * RATES))

    def exact_vector(
        self, records: Records, asked_shards: npt.NDArray[np.intp]
    ) -> Integers:
        """Trains the shards whose turn it is, and sums the vectors of those asked.

        Which shards are trained follows from the number of steps alone: if it followed
        from which are asked, their states would remember the private sample.
        `test_a_public_schedule_says_who_learns_whoever_is_asked` notices if it does.

        Args:
            records: All records; private.
            asked_shards: Indices of the shards that are asked for a vector; private.

        Returns:
            The exact sum of the clipped vectors, (count,), in grid units; private.
        """
        shards = self.query.shards
        if self._split is None:
            # The random word of a record decides on its shard; it has 8 bytes.
            words = np.frombuffer(
                secrets.token_bytes(8 * len(records[0])), dtype=np.uint64
            )
            self.split_and_warm_up(records, words, secrets.randbits(128))

        if self.teacher.learning is None:
            learner_count = shards
        else:
            learner_count = min(self.teacher.learning, shards)
        learners = np.sort((self._next_to_learn + np.arange(learner_count)) % shards)
        self._train_shards(records, learners)
        self._next_to_learn = (self._next_to_learn + learner_count) % shards
        clipped_answers = self._clipped_answers(records, asked_shards)
        return np.asarray(clipped_answers.sum(axis=0, dtype=np.int64))

    def split_and_warm_up(
        self, records: Records, words: npt.NDArray[np.uint64], seed: int
    ) -> None:
        """Splits the records into shards, and trains every shard for the first time.

        It is called once, in the first step. The split and the states are only in
        memory, so a run that was interrupted cannot be resumed.

        Args:
            records: All records; private.
            words: A uniform word of 64 bits for each record, (records,).
            seed: Seeds the draws within shards.
        """
        self._start_shards(words, seed)
        for _ in range(self.teacher.warm_up):
            self._train_shards(records, np.arange(self.query.shards))

    def _start_shards(self, words: npt.NDArray[np.uint64], seed: int) -> None:
        """Splits the records into shards by their words, and sets the initial states.

        Earlier states are dropped. The probe calls this for simulated records, the
        first step for the private ones.

        Args:
            words: A uniform word of 64 bits for each record, (records,).
            seed: Seeds the draws within shards.
        """
        shards = self.query.shards
        self._split = _Split.of(words, shards)
        self._random = np.random.Generator(np.random.Philox(seed))
        weights, other_state = self.teacher.start(shards)
        self._states = (
            _apply_to_each(weights, lambda value: value.to(self.device)),
            _apply_to_each(other_state, lambda value: value.to(self.device)),
        )

    def _train_shards(self, records: Records, learners: npt.NDArray[np.intp]) -> None:
        """Trains some shards: gradient steps on their own records, as the teacher says.

        Shards are computed in blocks, and each block is updated before the next one is
        computed. No shard reads the state of another, so the order does not matter.

        Args:
            records: All records; private.
            learners: Indices of the shards to train, ascending.
        """
        import torch

        for _ in range(self.teacher.rounds):
            for shard_indices, batch in self._batches(records, learners):
                weights, other_state = (
                    _rows(state, shard_indices) for state in self._states
                )
                leaves = _apply_to_each(
                    weights, lambda value: value.detach().requires_grad_()
                )
                losses = self._map_over_shards(
                    self.teacher.loss,
                    leaves,
                    dict(self.parameters),
                    batch,
                    dims=(0, None, 0),
                )
                # The loss of a shard depends on its own weights alone. So the gradient
                # of the sum of losses has the gradient of each.
                gradients = torch.autograd.grad(
                    losses.sum(),
                    list(leaves.values()),
                    allow_unused=True,
                    materialize_grads=True,
                )
                updated_states = self._map_over_shards(
                    self.teacher.step,
                    _apply_to_each(leaves, lambda value: value.detach()),
                    other_state,
                    dict(zip(leaves, gradients, strict=True)),
                )
                # Written back into the states of all shards.
                for state, updated in zip(self._states, updated_states, strict=True):
                    for name, value in updated.items():
                        state[name][shard_indices] = value

    def _clipped_answers(
        self, records: Records, asked_shards: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.int32]:
        """Computes the vector of each asked shard, and clips it on the grid.

        Args:
            records: All records; private.
            asked_shards: Indices of the shards.

        Returns:
            One row for each shard, (asked_shards, count), in grid units, with an L2
            norm of at most `UNITS`; private.

        Raises:
            OptionError: if the teacher returns other shapes than were planned.
        """
        query = self.query
        rows = [np.zeros((0, query.count), dtype=np.int32)]
        for shard_indices, batch in self._batches(records, asked_shards):
            weights = _rows(self._states[0], shard_indices)
            vectors = self._map_over_shards(
                self.teacher.answer,
                weights,
                dict(self.parameters),
                batch,
                dims=(0, None, 0),
            )
            shapes = {name: tuple(value.shape[1:]) for name, value in vectors.items()}
            if shapes != dict(query.parameters):
                raise OptionError(
                    f"the answers of {query.name!r} have shapes {shapes}, the plan "
                    f"{query.parameters}."
                )
            flat_arrays = [
                vectors[name]
                .reshape(len(shard_indices), -1)
                .detach()
                .float()
                .cpu()
                .numpy()
                for name in query.parameters
            ]
            flat_vectors = np.ascontiguousarray(np.concatenate(flat_arrays, axis=1))
            rows.append(query.grid.quantise(flat_vectors))
        return np.concatenate(rows)

    def _batches(
        self, records: Records, chosen_shards: npt.NDArray[np.intp]
    ) -> Iterator[tuple[Int64[Tensor, " shards"], ShardBatch]]:
        """Draws records of some shards, and yields them in blocks of shards.

        Records are drawn for all shards, also for those that are not chosen. So the
        random numbers of a shard do not depend on which other shards are chosen.

        Args:
            records: All records; private.
            chosen_shards: Indices of the chosen shards.

        Yields:
            Indices of the shards of a block, (shards,), and their records, with an axis
            of shards in front.
        """
        import torch

        assert self._split is not None
        draws = self.teacher.records
        uniform = self._random.random((self.query.shards, draws))
        drawn_records = self._split.draw_records(uniform)
        for start in range(0, len(chosen_shards), _SHARDS_PER_BLOCK):
            shard_indices = chosen_shards[start : start + _SHARDS_PER_BLOCK]
            has_records = (self._split.sizes[shard_indices] > 0).astype(np.float32)
            record_indices = drawn_records[shard_indices].reshape(-1)
            # 0.0 for what was drawn for an empty shard, which is another shard's.
            is_real = has_records.repeat(draws)[:, None]
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

        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def _map_over_shards(
        self, function: Callable[..., Any], *arguments: Any, dims: Any = 0
    ) -> Any:
        """Calls a function of one shard for all shards of a block at once.

        Args:
            function: The function, written for one shard.
            arguments: Its arguments for all shards of the block.
            dims: Which axis of the arguments is that of shards: 0, or for each argument
                0 or None. None stands for an argument that all shards have in common.

        Returns:
            The results, with an axis of shards in front.
        """
        import torch

        # No warnings: whether a user sees one must not depend on a private record.
        # Torch draws from a generator of this session, so that of the caller stays as
        # it is.
        with (
            warnings.catch_warnings(action="ignore"),
            torch.random.fork_rng(devices=[]),
        ):
            torch.manual_seed(int(self._random.integers(2**63)))
            mapped_function = torch.vmap(function, in_dims=dims, randomness="different")
            return mapped_function(*arguments)

    def probe(self, parameters: Tensors, layout: Layout, threads: int) -> None:
        """Tries the teacher on simulated records: no vector may depend on other shards.

        Three times the shards are started and trained, and answer with their vectors.
        The second time, the first shard has other records: only its own vector may
        change. The third time everything is as at first, and so must be all vectors:
        they show a teacher that keeps something between calls. The last shard is empty.
        Example, with vectors of one number::

            shard                              0    1    2 (empty)
            usual records                     17   -4    0
            other records in the first shard   9   -4    0
            usual records again               17   -4    0

        Meanwhile the parameters, the split and the states are those of the probe;
        afterwards they are as before the first step. After an error they stay those of
        the probe, until it is repeated.

        Args:
            parameters: Parameters of the first step.
            layout: Columns of the records.
            threads: Not used.

        Raises:
            OptionError: if another shard's records change a vector, or it changes each
                time, or the teacher returns other shapes than were planned.
        """
        random = np.random.Generator(np.random.Philox(_PARAMETERS_SEED))
        # At the start of a training many parameters are zero, and hide what they
        # multiply.
        self.parameters = {
            name: move_slightly(value, random) for name, value in parameters.items()
        }
        first, with_other_records, again = (
            self._probe_answers(layout, first_shard_seed)
            for first_shard_seed in (_RECORDS_SEED, _OTHER_RECORDS_SEED, _RECORDS_SEED)
        )
        # No split: the first step draws one, for the private records.
        self.parameters = {}
        self._split = None
        self._states = ({}, {})

        # First, as a teacher with a memory would fail in the other comparison too, and
        # get the wrong message.
        if not np.array_equal(first, again):
            raise OptionError(
                f"the teacher of {self.query.name!r} gives a shard another vector each "
                "time. "
                "What it returns must follow from its arguments and torch's random "
                "operations: let it keep nothing between calls."
            )
        if not np.array_equal(first[1:], with_other_records[1:]):
            raise OptionError(
                f"the teacher of {self.query.name!r} gives a shard another vector when "
                "another shard has other records; write it for a single shard, of its "
                "arguments alone."
            )

    def _probe_answers(
        self, layout: Layout, first_shard_seed: int
    ) -> npt.NDArray[np.int32]:
        """Computes the vectors of shards that were trained on simulated records.

        Overwrites the split, the states and the random numbers of this session, but not
        whose turn it is to be trained.

        Args:
            layout: Columns of the simulated records.
            first_shard_seed: Seed of the records of the first shard. The other shards
                have the same records in every call, those of `_RECORDS_SEED`.

        Returns:
            The clipped vector of each shard, (shards, count), in grid units. The last
            shard has no records, unless it is the only one.
        """
        query = self.query
        probed_shards = min(query.shards, _PROBE_SHARDS)
        record_count = _PROBE_RECORDS * probed_shards
        usual_records, first_shard_records = (
            made_up_records(
                layout, record_count, np.random.Generator(np.random.Philox(seed))
            )
            for seed in (_RECORDS_SEED, first_shard_seed)
        )
        # The words are the shards themselves: 0, 1, 0, 1, … for three shards. The last
        # shard stays empty. That may happen with private records too, and a teacher
        # must answer then.
        filled_shards = max(probed_shards - 1, 1)
        words = np.arange(record_count, dtype=np.uint64) % np.uint64(filled_shards)
        in_first_shard = (words == 0)[:, None]
        # Each row is from one of the two sets, so no record of another shard moves.
        numeric = np.where(
            in_first_shard, first_shard_records.numeric, usual_records.numeric
        )
        codes = np.where(in_first_shard, first_shard_records.codes, usual_records.codes)
        records = Records(numeric.astype(np.float32), codes)

        self._start_shards(words, _DRAWS_SEED)
        # Once more: tests replace `_start_shards` by one that splits by other words.
        self._split = _Split.of(words, query.shards)
        asked_shards = np.arange(probed_shards)
        for _ in range(_PROBE_LEARNINGS):
            self._train_shards(records, asked_shards)
        return self._clipped_answers(records, asked_shards)


def _apply_to_each(
    tensors: Tensors, function: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """Applies a function to each tensor, and returns the results by name."""
    return {name: function(value) for name, value in tensors.items()}


def _rows(tensors: Tensors, indices: Int64[Tensor, " rows"]) -> dict[str, Tensor]:
    """Selects some rows of each tensor, and returns them by name."""
    return {name: value[indices] for name, value in tensors.items()}


SampleVector: TypeAlias = Callable[
    [Mapping[str, Any], npt.NDArray[np.float32], npt.NDArray[np.int32]],
    Mapping[str, Any],
]
"""Computes the vector of a sample: from public parameters, by name, and the numeric and
coded columns of its records, (records, columns) each, to arrays of the planned shapes,
by name."""

# Numbers of records in the made-up samples of the probe. A function may return another
# shape for an empty sample or a single record. The first number comes again at the end:
# it shows whether the function remembers the samples in between.
_PROBE_SAMPLE_SIZES = (7, 0, 1, 12, 7)


class BatchVectors:
    """One clipped vector of a whole sample; see `StepVectors`.

    All records are held in the memory of this process.

    Args:
        query: The steps, as they were asked for.
        vector: Computes the vector of a sample. It may draw random numbers only from a
            generator that it creates in the call, and must keep nothing from one call
            to the next.
    """

    def __init__(self, query: BatchQuery, vector: SampleVector) -> None:
        self.query = query
        self.vector = vector
        # The shard of each record, (records,); None before the first step.
        self._shards: npt.NDArray[np.uint64] | None = None

    @property
    def public_settings(self) -> dict[str, Any]:
        """Norm and shards of the samples, for the certificate."""
        return {
            "norm": self.query.clip_norm,
            "whole": True,
            "shards": self.query.shards,
        }

    def checked(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Takes the parameters of a step as they are."""
        return parameters

    def read(
        self,
        transaction: Transaction,
        samples: PoissonSamples,
        parameters: Mapping[str, Any],
    ) -> HeldRecords:
        """Reads all records into the memory of this process; see `StepVectors`."""
        return _read_here(transaction)

    def total(
        self,
        held_records: HeldRecords,
        samples: PoissonSamples,
        number: int,
        parameters: Mapping[str, Any],
    ) -> Integers:
        """Draws the sample of a step, and computes its exact vector.

        Args:
            held_records: All records; private.
            samples: Draws Poisson samples.
            number: Number of the step, from 0.
            parameters: Parameters of the step, by name.

        Returns:
            The vector, (count,), in grid units; private.
        """
        records = held_records.all_records()
        sample = self._sample(samples, len(records.numeric), number)
        return self._exact_vector(records, sample, parameters)

    def unpacked(self, noisy: Integers) -> dict[str, npt.NDArray[np.float32]]:
        """Splits the noisy vector of a step into arrays, in the units of the vectors.

        Args:
            noisy: The vector in grid units, (count,).
        """
        return self.query.unpack(noisy)

    def _sample(
        self, samples: PoissonSamples, record_count: int, number: int
    ) -> npt.NDArray[np.intp]:
        """Draws a Poisson sample of the records, or takes the next shard in turn.

        With one planned shard, the sample is a Poisson sample. With several, the
        records are split into disjoint shards in the first step, by a random word of
        each record, and each step takes one shard as its sample.

        Args:
            samples: Draws Poisson samples.
            record_count: Number of records; private.
            number: Number of the step, from 0.

        Returns:
            Indices of the records, ascending; private.
        """
        shards = self.query.shards
        if shards == 1:
            return samples.indices(record_count, number)
        if self._shards is None:
            # The random word of a record decides on its shard: a record that is added
            # or removed moves no other record.
            words = np.frombuffer(
                secrets.token_bytes(8 * record_count), dtype=np.uint64
            )
            self._shards = words % np.uint64(shards)
        return np.flatnonzero(self._shards == number % shards)

    def _exact_vector(
        self,
        records: Records,
        sample: npt.NDArray[np.intp],
        parameters: Mapping[str, Any],
    ) -> Integers:
        """Computes and clips the vector of a sample; zeros if the function fails.

        Whether the user's function fails may depend on a single record. So an error
        neither stops the step nor is reported: the vector is zeros then, to which the
        same noise is added (G-24).

        Args:
            records: All records; private.
            sample: Indices of the records in the sample; private.
            parameters: Public parameters, by name.

        Returns:
            The exact vector, (count,), in grid units; private.
        """
        numeric, codes = records
        with warnings.catch_warnings(action="ignore"):
            try:
                return self._clipped(
                    parameters,
                    as_floats(numeric[sample]),
                    codes[sample],
                    "a sample",
                )
            except Exception:
                return np.zeros(self.query.count, dtype=np.int64)

    def _clipped(
        self,
        parameters: Mapping[str, Any],
        numeric: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int32],
        name: str,
    ) -> Integers:
        """Calls the function of a sample, and clips the vector that it returns.

        Args:
            parameters: Public parameters, by name; the function gets copies.
            numeric: Numeric columns of the sample, (records, columns).
            codes: Coded columns of the sample, (records, columns).
            name: What messages call the sample.

        Returns:
            The vector, (count,), in grid units, with an L2 norm of at most `UNITS`.

        Raises:
            OptionError: if the function returns other shapes than were planned.
        """
        query = self.query
        vector = self.vector(copy_parameters(parameters), numeric, codes)
        arrays = {key: _as_float_array(value) for key, value in vector.items()}
        shapes = {key: value.shape for key, value in arrays.items()}
        if shapes != query.parameters:
            raise OptionError(
                f"the function of {query.name!r} returned other shapes than "
                f"{dict(query.parameters)} for {name}; they must not depend on the "
                "sample, be it empty."
            )
        row = np.concatenate([arrays[key].reshape(-1) for key in query.parameters])
        return np.asarray(query.grid.quantise(row[None])[0].astype(np.int64))

    def probe(
        self, parameters: Mapping[str, Any], layout: Layout, threads: int
    ) -> None:
        """Tries the function on made-up samples of several sizes, one of them empty.

        A sample that is computed twice, with others in between, must get the same
        vector: this shows a function that keeps something between calls.

        Args:
            parameters: Parameters of the first step.
            layout: Columns of the records.
            threads: Not used.

        Raises:
            OptionError: if the vector differs the second time, or has other shapes than
                planned.
        """
        query = self.query
        # At the start of a training many parameters are zero, and hide what they
        # multiply.
        random = np.random.Generator(np.random.Philox(_PARAMETERS_SEED))
        moved_parameters = {
            name: move_slightly(value, random)
            for name, value in copy_parameters(parameters).items()
        }
        # The vector that was computed first, by size of the sample.
        first_vectors: dict[int, Integers] = {}
        for size in _PROBE_SAMPLE_SIZES:
            # The size is the seed, so samples of the same size have the same records.
            records = made_up_records(
                layout, size, np.random.Generator(np.random.Philox(size))
            )
            vector = self._clipped(
                moved_parameters,
                records.numeric.astype(np.float32),
                records.codes,
                f"a sample of {size} made-up records",
            )
            first_vector = first_vectors.setdefault(size, vector)
            if not np.array_equal(first_vector, vector):
                raise OptionError(
                    f"the function of {query.name!r} gives a sample another vector when "
                    "it was called with others in between, or each time. What it "
                    "returns must follow from the sample and the parameters alone: let "
                    "it keep nothing between calls, and draw from no generator that "
                    "lives on."
                )


def _as_float_array(value: Any) -> npt.NDArray[np.float64]:
    """Converts an array, or a tensor on any device, to an array of float64."""
    if hasattr(value, "detach"):
        return np.asarray(value.detach().cpu(), dtype=np.float64)
    return np.asarray(value, dtype=np.float64)


def copy_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Copies parameters before they are given to a function of private records.

    The function could write something of the records into the parameters, which are
    public. It writes into the copy only, which is dropped.

    Args:
        parameters: Arrays or tensors, by name.
    """
    return {
        name: value.detach().clone() if hasattr(value, "detach") else np.array(value)
        for name, value in parameters.items()
    }


def move_slightly(value: Any, random: np.random.Generator) -> Any:
    """Adds a little noise to a parameter, for the probe.

    At the start of a training many parameters are zero, and hide what they multiply: a
    dependence on other records might not be seen there.

    Args:
        value: An array or a tensor.
        random: Draws the noise, of standard deviation 0.02.

    Returns:
        The value plus noise; integers as they are. Noise is drawn for integers too, so
        that it does not depend on their types what is drawn for later parameters.

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
        if value.is_floating_point():
            return value + value.new_tensor(noise)
        return value
    if np.issubdtype(value.dtype, np.floating):
        return (value + noise).astype(value.dtype)
    return value
