"""Vectors of whole samples: one bounded vector a step, from any function of a Poisson sample or of a disjoint shard.

Where the function fails for a sample, or returns other shapes or a number that is not finite, the vector is zero, and
nothing else tells of it. One that kept something between calls would carry records from a sample into the next, where
they are not accounted: it gets copies, and is tried on made-up samples before the first record is read (G-24).
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.execution import made_up_records
from noisegate.gate.queries.gradients import SampleSession
from noisegate.gate.samples import Records, as_floats
from noisegate.gate.session import Access, Integers

SampleVector: TypeAlias = Callable[
    [Mapping[str, Any], npt.NDArray[np.float32], npt.NDArray[np.int32]], Mapping[str, Any]
]
"""Of public parameters and the numeric and coded columns of a sample, (records, columns): arrays of planned shapes."""

# Records of the made-up samples; the first comes again at the end.
_TRIED = (7, 0, 1, 12, 7)


class BatchSession(SampleSession):
    """The steps of one plan of whole samples, to be had from `Gate.batch`.

    The function of a sample draws no randomness but from a generator that it makes anew, and keeps nothing from one
    call to the next.

    Raises:
        OptionError: if there is a journal and the samples are shards.
    """

    def __init__(self, access: Access, vector: SampleVector, *, journal: Path | None = None) -> None:
        plan = access.plan.plan
        if journal is not None and plan.shards > 1:
            raise OptionError(
                "journal: a run on shards cannot be resumed, as who is in which one is private and kept in memory; use "
                "Poisson samples (shards=1), or leave out the journal."
            )
        super().__init__(access, {"norm": plan.clip_norm, "whole": True, "shards": plan.shards}, journal=journal)
        self._vector = vector
        self._shards: npt.NDArray[np.uint64] | None = None

    def _sample(self, records: int, number: int) -> npt.NDArray[np.intp]:
        shards = self.plan.plan.shards
        if shards == 1:
            return super()._sample(records, number)
        if self._shards is None:
            # Each record's own word decides, whoever else is there: a record that comes or goes moves no other one.
            self._shards = np.frombuffer(secrets.token_bytes(8 * records), dtype=np.uint64) % np.uint64(shards)
        return np.flatnonzero(self._shards == number % shards)

    def _exact(self, records: Records, sample: npt.NDArray[np.intp]) -> Integers:
        numeric, codes = records
        # Whether there is an error or a warning must not depend on a record.
        with warnings.catch_warnings(action="ignore"):
            try:
                return self._clipped(self._parameters, as_floats(numeric[sample]), codes[sample], "a sample")
            except Exception:
                return np.zeros(self.plan.plan.count, dtype=np.int64)

    def _clipped(
        self, parameters: Mapping[str, Any], numeric: npt.NDArray[np.float32], codes: npt.NDArray[np.int32], name: str
    ) -> Integers:
        """Returns the vector of a sample as one row of integers of norm at most `UNITS`."""
        plan = self.plan.plan
        found = {key: _array(value) for key, value in self._vector(copied(parameters), numeric, codes).items()}
        if {key: value.shape for key, value in found.items()} != plan.parameters:
            raise OptionError(
                f"the function of {plan.name!r} returned other shapes than {dict(plan.parameters)} for {name}; they "
                "must not depend on the sample, be it empty."
            )
        row = np.concatenate([found[key].reshape(-1) for key in plan.parameters])
        integers: Integers = plan.grid.quantise(row[None])[0].astype(np.int64)
        return integers

    def _probe(self) -> None:
        """Refuses a function that gives a made-up sample another vector after others, or another shape."""
        # At parameters near those of the first step, where less is zero.
        layout, plan = self._access.source.schema.layout, self.plan.plan
        random = np.random.Generator(np.random.Philox(20240229))
        nearby = {name: moved(value, random) for name, value in copied(self._parameters).items()}
        seen: dict[int, Integers] = {}
        for rows in _TRIED:
            made_up = made_up_records(layout, rows, np.random.Generator(np.random.Philox(rows)))
            given = made_up.numeric.astype(np.float32), made_up.codes
            found = self._clipped(nearby, *given, f"a sample of {rows} made-up records")
            if not np.array_equal(seen.setdefault(rows, found), found):
                raise OptionError(
                    f"the function of {plan.name!r} gives a sample another vector when it was called with others in "
                    "between, or each time. What it returns must follow from the sample and the parameters alone: let "
                    "it keep nothing between calls, and draw from no generator that lives on."
                )


def _array(value: Any) -> npt.NDArray[np.float64]:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value, dtype=np.float64)


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
    return (value + noise).astype(value.dtype) if np.issubdtype(value.dtype, np.floating) else value
