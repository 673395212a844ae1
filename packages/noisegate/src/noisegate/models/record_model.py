"""What every model of records can do, whatever method fitted it, and which class stands behind each saved kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from noisegate.errors import EXTRAS, MissingExtraError, ModelError, OptionError
from noisegate.privacy.release import Release
from noisegate.registry import extensions, more
from noisegate.schema import EncodedTable, Region, Schema
from noisegate.seeds import permutation

if TYPE_CHECKING:
    import torch


Array: TypeAlias = npt.NDArray[Any]


class RecordModel(Protocol):
    """A distribution over records that can be drawn from, saved and rebuilt."""

    kind: ClassVar[str]
    """Names the class in a saved model; see `model_class`."""

    def draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        """Returns `rows` records; `random` is public randomness, on the CPU.

        Each record alone is a draw from the model. A model may spread them out, so they need not be independent.
        """
        ...

    def tensors(self) -> dict[str, Array]:
        """Returns what is fitted, for safetensors."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns what else `from_saved` needs, as a JSON object; "kind" and "fit" are not free as keys."""
        ...

    @classmethod
    def from_saved(cls, schema: Schema, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the model that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: if they describe none; the caller names the folder.
        """
        ...


@runtime_checkable
class ConditionalModel(Protocol):
    """A record model that knows its conditional distributions; others are conditioned by rejection."""

    def probability(self, region: Region) -> float:
        """Returns the probability that a record lies in `region`."""
        ...

    def given(self, region: Region) -> RecordModel:
        """Returns the model of the records in `region`, whose probability must be positive.

        It may draw others too, which the caller rejects, as long as those in the region have their distribution.
        """
        ...


class FittedModel(Protocol):
    """What a run comes to: a synthesizer of records or of linked tables, or a classifier, with what left the gate."""

    @property
    def release(self) -> Release:
        """What left the gate, with its certificate."""
        ...

    def save(self, folder: str | Path) -> Path:
        """Writes it into a new folder."""
        ...


def model_class(kind: str) -> Any:
    """Returns the class of a kind in a saved model, by its entry point in the group `noisegate.models`."""
    # A kind that draws records is a `RecordModel`; a classifier, or a model of linked tables, is one with `load`. A
    # ModelError if no installed package knows the kind, a MissingExtraError if what it takes is not installed.
    known = extensions("noisegate.models")
    if kind not in known:
        listed = ", ".join(sorted(known))
        raise ModelError(f"a model of kind {kind!r} is not known to this version; it knows {listed}{more()}.")
    try:
        return known[kind].load()
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise MissingExtraError.of(error.name, f"a model of kind {kind!r}") from None


Accept: TypeAlias = Callable[[EncodedTable], npt.NDArray[np.bool_]]

BATCH_ROWS = 16_384
LEAST_ACCEPTANCE = 1e-4
# At the least acceptance this is 13 records on average: few enough to be quick, enough to tell 1e-4 from 1e-5.
PROBE_ROWS = 8 * BATCH_ROWS


def accepted_batches(
    model: RecordModel,
    rows: int,
    random: torch.Generator,
    *,
    accept: Accept | None,
    asked: str,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[EncodedTable]:
    """Yields `rows` records of `model` that are accepted, in batches of at most `batch_rows`, in constant memory."""
    # `accept` says which may be kept, None for all; fewer than one in 10,000 are an OptionError in which `asked` says
    # what.
    drawn = kept = 0
    for start in range(0, rows, batch_rows):
        wanted = min(batch_rows, rows - start)
        if accept is None:
            yield model.draw(wanted, random)
            continue
        parts: list[EncodedTable] = []
        found = 0
        while found < wanted:
            # As many as should do, by what was accepted so far; the surplus is dropped, which favours no record.
            share = (kept + 1) / (drawn + 1)
            records = model.draw(min(batch_rows, int((wanted - found) / share) + 1), random)
            accepted = records.rows(accept(records))
            drawn, kept = drawn + len(records), kept + len(accepted)
            if drawn >= PROBE_ROWS and kept < LEAST_ACCEPTANCE * drawn:
                raise OptionError(
                    f"{asked}: of {drawn:,} synthetic records only {kept:,} did, a probability of about "
                    f"{kept / drawn:.1g}; below {LEAST_ACCEPTANCE:g} none are made. Ask for less at once."
                )
            parts.append(accepted)
            found += len(accepted)
        yield EncodedTable.concatenate(parts).rows(slice(0, wanted))


def mixed(parts: Sequence[Iterator[EncodedTable]], random: torch.Generator) -> Iterator[EncodedTable]:
    """Yields one batch of each of several iterators, shuffled together, until all are done; one alone as it is."""
    if len(parts) == 1:
        yield from parts[0]
        return
    for batches in zip_longest(*parts):
        together = EncodedTable.concatenate([batch for batch in batches if batch is not None])
        yield together.rows(permutation(random, len(together)))
