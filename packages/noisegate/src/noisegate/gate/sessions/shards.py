"""Sums over disjoint shards, by a public schedule: each trains a state of its own and answers by a vector (G-26).

They are made by functions of one shard, which torch maps over all, by a public schedule
(G-26).
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Mapping
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

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor

Tensors: TypeAlias = Mapping[str, "Tensor"]
"""Arrays by name. What a shard keeps has, for all shards together, one more axis in front."""

# Shards that are computed at once; the last block is smaller. Fixed, so that a shard has always the same place.
_BLOCK = 64
# Shards and records of the probe, and how often they learn.
_TRIED, _TRIED_RECORDS, _ROUNDS = 3, 4, 2


class ShardBatch(NamedTuple):
    """What a shard sees of its records in a round.

    Attributes:
        numeric: Numeric columns of records drawn with replacement, (records, columns) float32; zeros if it has none.
        codes: Coded columns of the same, (records, columns) int64.
        held: 1.0 if the shard has any record, else 0.0.
    """

    numeric: Tensor
    codes: Tensor
    held: Tensor


class Teacher(Protocol):
    """What one shard learns and answers, written for a single one; `torch.vmap` makes all do it.

    What is mapped is a function of what it is given and keeps nothing. Random operations of torch are allowed in `loss`
    and `answer`: every shard draws its own numbers.

    Attributes:
        records: How many records of its own a shard sees in a round, drawn with replacement.
        rounds: How many gradients of its loss, each on other records, it follows each time that it learns.
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
        """Returns weights of so many shards before they saw any record, (shards, …), and what else they keep."""
        ...

    def loss(
        self, weights: Tensors, parameters: Tensors, batch: ShardBatch
    ) -> Float[Tensor, ""]:
        """Returns the loss of one shard at its weights, on some of its records: a number, differentiable."""
        ...

    def step(
        self, weights: Tensors, kept: Tensors, gradients: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Returns the weights of one shard, and what else it keeps, after a step against the gradient of its loss."""
        ...

    def answer(
        self, weights: Tensors, parameters: Tensors, batch: ShardBatch
    ) -> Tensors:
        """Returns the vector of one shard, arrays of the planned shapes."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Split:
    """Who is in which shard: places of records, (records,), where each shard begins and its size, (shards,)."""

    order: npt.NDArray[np.intp]
    first: npt.NDArray[np.intp]
    sizes: npt.NDArray[np.intp]

    @classmethod
    def of(cls, words: npt.NDArray[np.uint64], shards: int) -> _Split:
        """Returns the split in which each record's own word decides, whoever else is there."""
        chosen = (words % np.uint64(shards)).astype(np.intp)
        sizes = np.bincount(chosen, minlength=shards).astype(np.intp)
        return cls(
            order=np.argsort(chosen, kind="stable"),
            first=np.cumsum(sizes) - sizes,
            sizes=sizes,
        )

    def drawn(self, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """Returns places of records of each shard, (shards, records), by numbers in [0, 1); of an empty shard any."""
        within = np.minimum(
            (uniform * self.sizes[:, None]).astype(np.intp),
            np.maximum(self.sizes - 1, 0)[:, None],
        )
        return self.order[np.minimum(self.first[:, None] + within, len(self.order) - 1)]


class ShardSession(SampleSession):
    """The steps of one plan of shards, to be had from `Gate.shards`."""

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
        self._teacher, self._device = teacher, device
        self._split: _Split | None = None
        self._states: tuple[Tensors, Tensors] = {}, {}
        self._learnt = 0
        self._random = np.random.default_rng()

    def _usable(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        import torch

        return {
            name: torch.as_tensor(value).detach().to(self._device)
            for name, value in copied(parameters).items()
        }

    def _sample(self, records: int, number: int) -> npt.NDArray[np.intp]:
        """Returns which shards are asked: each whose own 32-bit word, fresh in every step, is below rate·2³²."""
        plan = self.plan.plan
        words = np.frombuffer(
            secrets.token_bytes(4 * plan.shards), dtype=np.uint32
        ).astype(np.uint64)
        return np.flatnonzero(words < int(plan.sampling_probability * RATES))

    def _exact(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        plan, teacher = self.plan.plan, self._teacher
        if self._split is None:
            # Each record's own word decides, whoever else is there: a record that comes or goes moves no other one.
            words = np.frombuffer(
                secrets.token_bytes(8 * len(records[0])), dtype=np.uint64
            )
            self._open(records, words, secrets.randbits(128))
        learning = (
            plan.shards
            if teacher.learning is None
            else min(teacher.learning, plan.shards)
        )
        # Who learns is a public schedule, which knows nothing of who is asked.
        self._learn(
            records, np.sort((self._learnt + np.arange(learning)) % plan.shards)
        )
        self._learnt = (self._learnt + learning) % plan.shards
        return np.asarray(self._answers(records, sample).sum(axis=0, dtype=np.int64))

    def _open(self, records: Records, words: npt.NDArray[np.uint64], seed: int) -> None:
        """Begins with the records, and lets every shard learn as often as it is to before the first step."""
        self._begin(words, seed)
        for _ in range(self._teacher.warm_up):
            self._learn(records, np.arange(self.plan.plan.shards))

    def _begin(self, words: npt.NDArray[np.uint64], seed: int) -> None:
        """Splits the records by their words and starts every shard; `seed` is of the draws within shards."""
        shards = self.plan.plan.shards
        self._split, self._random = (
            _Split.of(words, shards),
            np.random.Generator(np.random.Philox(seed)),
        )
        weights, kept = self._teacher.start(shards)
        self._states = (
            _each(weights, lambda value: value.to(self._device)),
            _each(kept, lambda v: v.to(self._device)),
        )

    def _learn(self, records: Records, chosen: npt.NDArray[np.intp]) -> None:
        import torch

        for _ in range(self._teacher.rounds):
            for places, batch in self._batches(records, chosen):
                weights, kept = (_rows(part, places) for part in self._states)
                leaves = _each(weights, lambda value: value.detach().requires_grad_())
                # Each loss depends on the weights of its own shard alone, so the gradient of the sum is that of each.
                total = self._mapped(
                    self._teacher.loss,
                    leaves,
                    dict(self._parameters),
                    batch,
                    dims=(0, None, 0),
                ).sum()
                found = torch.autograd.grad(
                    total,
                    list(leaves.values()),
                    allow_unused=True,
                    materialize_grads=True,
                )
                given = (
                    _each(leaves, lambda value: value.detach()),
                    kept,
                    dict(zip(leaves, found, strict=True)),
                )
                moved = self._mapped(self._teacher.step, *given)
                for whole, part in zip(self._states, moved, strict=True):
                    for name, value in part.items():
                        whole[name][places] = value

    def _answers(
        self, records: Records, chosen: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.int32]:
        """Returns the vectors of some shards as rows of integers of norm at most `UNITS`, (chosen, numbers)."""
        plan, rows = (
            self.plan.plan,
            [np.zeros((0, self.plan.plan.count), dtype=np.int32)],
        )
        for places, batch in self._batches(records, chosen):
            weights = _rows(self._states[0], places)
            found = self._mapped(
                self._teacher.answer,
                weights,
                dict(self._parameters),
                batch,
                dims=(0, None, 0),
            )
            shapes = {name: tuple(value.shape[1:]) for name, value in found.items()}
            if shapes != dict(plan.parameters):
                raise OptionError(
                    f"the answers of {plan.name!r} have shapes {shapes}, the plan {plan.parameters}."
                )
            flat = [
                found[name].reshape(len(places), -1).detach().float().cpu().numpy()
                for name in plan.parameters
            ]
            rows.append(
                plan.grid.quantise(np.ascontiguousarray(np.concatenate(flat, axis=1)))
            )
        return np.concatenate(rows)

    def _batches(self, records: Records, chosen: npt.NDArray[np.intp]) -> Any:
        """Yields blocks of chosen shards, as places, with records of each, drawn for every shard alike."""
        import torch

        assert self._split is not None
        shards, of_each = self.plan.plan.shards, self._teacher.records
        # Numbers for all shards in every call, so that those of one never depend on another.
        drawn = self._split.drawn(self._random.random((shards, of_each)))
        for start in range(0, len(chosen), _BLOCK):
            places = chosen[start : start + _BLOCK]
            held = (self._split.sizes[places] > 0).astype(np.float32)
            flat = drawn[places].reshape(-1)
            numeric, codes = (
                as_floats(records[0][flat]),
                records[1][flat].astype(np.int64),
            )
            numeric = np.where(
                held.repeat(of_each)[:, None] > 0, numeric, np.float32(0)
            )
            codes = codes * held.repeat(of_each)[:, None].astype(np.int64)
            arrays = (
                part.reshape(len(places), of_each, -1) for part in (numeric, codes)
            )
            tensors = (
                torch.from_numpy(np.ascontiguousarray(part)).to(self._device)
                for part in (*arrays, held)
            )
            yield torch.from_numpy(places), ShardBatch(*tensors)

    def _mapped(self, function: Callable[..., Any], *given: Any, dims: Any = 0) -> Any:
        import torch

        # Whether there is a warning must not depend on a record. Draws of the shards come from a stream of their own.
        with (
            warnings.catch_warnings(action="ignore"),
            torch.random.fork_rng(devices=[]),
        ):
            torch.manual_seed(int(self._random.integers(2**63)))
            return torch.vmap(function, in_dims=dims, randomness="different")(*given)

    def _probe(self) -> None:
        """Refuses what gives a shard another vector for other records of others, or other shapes, on made-up ones."""
        plan, layout = self.plan.plan, self._access.source.schema.layout
        shards = min(plan.shards, _TRIED)
        given, random = (
            self._parameters,
            np.random.Generator(np.random.Philox(20240229)),
        )
        self._parameters = {name: moved(value, random) for name, value in given.items()}
        found = []
        # The last shard is empty; the first has other records the second time.
        for seed in (0, 1, 0):
            made_up = made_up_records(
                layout,
                _TRIED_RECORDS * shards,
                np.random.Generator(np.random.Philox(5)),
            )
            other = made_up_records(
                layout,
                _TRIED_RECORDS * shards,
                np.random.Generator(np.random.Philox(5 + seed)),
            )
            words = np.arange(len(made_up), dtype=np.uint64) % np.uint64(
                max(shards - 1, 1)
            )
            first = (words == 0)[:, None]
            numeric = np.where(first, other.numeric, made_up.numeric).astype(np.float32)
            records = numeric, np.where(first, other.codes, made_up.codes)
            self._begin(words, 7)
            self._split = _Split.of(words, plan.shards)
            for _ in range(_ROUNDS):
                self._learn(records, np.arange(shards))
            found.append(self._answers(records, np.arange(shards)))
        self._parameters, self._split, self._states = given, None, ({}, {})
        if not np.array_equal(found[0], found[2]):
            raise OptionError(
                f"the teacher of {plan.name!r} gives a shard another vector each time. What it returns must follow "
                "from its arguments and torch's random operations: let it keep nothing between calls."
            )
        if not np.array_equal(found[0][1:], found[1][1:]):
            raise OptionError(
                f"the teacher of {plan.name!r} gives a shard another vector when another shard has other records; "
                "write it for a single shard, of its arguments alone."
            )


def _each(tensors: Tensors, function: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    return {name: function(value) for name, value in tensors.items()}


def _rows(tensors: Tensors, places: Int64[Tensor, " places"]) -> dict[str, Tensor]:
    return {name: value[places] for name, value in tensors.items()}


SampleVector: TypeAlias = Callable[
    [Mapping[str, Any], npt.NDArray[np.float32], npt.NDArray[np.int32]],
    Mapping[str, Any],
]
"""Of public parameters and the numeric and coded columns of a sample, (records, columns): arrays of planned shapes."""

# Records of the made-up samples; the first comes again at the end.
_MADE_UP = (7, 0, 1, 12, 7)


class BatchSession(SampleSession):
    """The steps of one plan of whole samples, to be had from `Gate.batch`.

    The function of a sample draws no randomness but from a generator that it makes anew, and keeps nothing from one
    call to the next.

    Raises:
        OptionError: if there is a journal and the samples are shards.
    """

    def __init__(
        self, access: Access, vector: SampleVector, *, journal: Path | None = None
    ) -> None:
        plan = access.plan.plan
        if journal is not None and plan.shards > 1:
            raise OptionError(
                "journal: a run on shards cannot be resumed, as who is in which one is private and kept in memory; use "
                "Poisson samples (shards=1), or leave out the journal."
            )
        super().__init__(
            access,
            {"norm": plan.clip_norm, "whole": True, "shards": plan.shards},
            journal=journal,
        )
        self._vector = vector
        self._shards: npt.NDArray[np.uint64] | None = None

    def _sample(self, records: int, number: int) -> npt.NDArray[np.intp]:
        shards = self.plan.plan.shards
        if shards == 1:
            return super()._sample(records, number)
        if self._shards is None:
            # Each record's own word decides, whoever else is there: a record that comes or goes moves no other one.
            self._shards = np.frombuffer(
                secrets.token_bytes(8 * records), dtype=np.uint64
            ) % np.uint64(shards)
        return np.flatnonzero(self._shards == number % shards)

    def _exact(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        numeric, codes = records
        # Whether there is an error or a warning must not depend on a record.
        with warnings.catch_warnings(action="ignore"):
            try:
                return self._clipped(
                    self._parameters,
                    as_floats(numeric[sample]),
                    codes[sample],
                    "a sample",
                )
            except Exception:
                return np.zeros(self.plan.plan.count, dtype=np.int64)

    def _clipped(
        self,
        parameters: Mapping[str, Any],
        numeric: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int32],
        name: str,
    ) -> Integers:
        """Returns the vector of a sample as one row of integers of norm at most `UNITS`."""
        plan = self.plan.plan
        found = {
            key: _array(value)
            for key, value in self._vector(copied(parameters), numeric, codes).items()
        }
        if {key: value.shape for key, value in found.items()} != plan.parameters:
            raise OptionError(
                f"the function of {plan.name!r} returned other shapes than {dict(plan.parameters)} for {name}; they "
                "must not depend on the sample, be it empty."
            )
        row = np.concatenate([found[key].reshape(-1) for key in plan.parameters])
        return np.asarray(plan.grid.quantise(row[None])[0].astype(np.int64))

    def _probe(self) -> None:
        """Refuses a function that gives a made-up sample another vector after others, or another shape."""
        # At parameters near those of the first step, where less is zero.
        layout, plan = self._access.source.schema.layout, self.plan.plan
        random = np.random.Generator(np.random.Philox(20240229))
        nearby = {
            name: moved(value, random)
            for name, value in copied(self._parameters).items()
        }
        seen: dict[int, Integers] = {}
        for rows in _MADE_UP:
            made_up = made_up_records(
                layout, rows, np.random.Generator(np.random.Philox(rows))
            )
            given = made_up.numeric.astype(np.float32), made_up.codes
            found = self._clipped(nearby, *given, f"a sample of {rows} made-up records")
            if not np.array_equal(seen.setdefault(rows, found), found):
                raise OptionError(
                    f"the function of {plan.name!r} gives a sample another vector when it was called with others in "
                    "between, or each time. What it returns must follow from the sample and the parameters alone: let "
                    "it keep nothing between calls, and draw from no generator that lives on."
                )


def _array(value: Any) -> npt.NDArray[np.float64]:
    return np.asarray(
        value.detach().cpu() if hasattr(value, "detach") else value, dtype=np.float64
    )


def copied(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns copies, so that nothing a function writes into them is there at its next call."""
    return {
        name: value.detach().clone() if hasattr(value, "detach") else np.array(value)
        for name, value in parameters.items()
    }


def moved(value: Any, random: np.random.Generator) -> Any:
    """Returns numbers near some, for trying a function where it is not at its start; whole numbers as they are."""
    noise = 0.02 * random.standard_normal(tuple(value.shape))
    if hasattr(value, "detach"):
        return value + value.new_tensor(noise) if value.is_floating_point() else value
    return (
        (value + noise).astype(value.dtype)
        if np.issubdtype(value.dtype, np.floating)
        else value
    )
