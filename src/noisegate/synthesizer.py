"""What a fit gives: synthetic tables, and the certificate that goes with them. Public side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError, OptionError
from noisegate.model_folder import read_model, write_model
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable, Schema, decode

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

    from noisegate.generators.table import TableGenerator

SAMPLE_ROWS = 16_384
KIND = "table-generator"


@dataclass(frozen=True, kw_only=True)
class FitSummary:
    """How a fit ended. `discrepancy` is the distance over what the noise alone would leave: 1 is as good as it gets."""

    step: int
    steps: int
    discrepancy: float


@dataclass(frozen=True, kw_only=True)
class Synthesizer:
    """A fitted generator with its release. It holds no record; sampling costs no privacy.

    Attributes:
        release: What left the gate, with its certificate.
        generator: The fitted network, on the CPU, in evaluation mode.
        weights: Share of each label, from the noisy counts.
        summary: How the fit ended.
        convert: Applied to the Arrow tables that `sample` returns; `noisegate.synthesize` gives back the caller's kind.
    """

    release: Release
    generator: TableGenerator
    weights: npt.NDArray[np.float64]
    summary: FitSummary
    convert: Callable[[pa.Table], Any] | None = field(default=None, repr=False)

    @property
    def certificate(self) -> Certificate:
        """The statement to hand out with the synthetic table."""
        return self.release.certificate

    @cached_property
    def schema(self) -> Schema:
        """The public schema."""
        return self.release.schema

    def sample(self, n: int, *, seed: int | None = None) -> Any:
        """Returns `n` synthetic records, with the columns and types of the schema.

        Args:
            n: Number of records, at least 0.
            seed: Of the public randomness; None for other records at every call.

        Returns:
            A PyArrow table; after `noisegate.synthesize`, the kind of table that was given there.

        Raises:
            OptionError: if `n` is negative or no whole number.
        """
        import pyarrow as pa

        tables = list(self.batches(n, seed=seed))
        table = pa.concat_tables(tables) if tables else decode(self._draw(1, _random(0)), self.schema).slice(0, 0)
        return self.convert(table) if self.convert else table

    def batches(self, n: int, *, seed: int | None = None) -> Iterator[pa.Table]:
        """Yields `n` synthetic records in Arrow tables of at most 16,384, in constant memory."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise OptionError(f"n={n!r}: the number of records to sample must be a whole number, 0 or more.")
        random = _random(seed)
        for start in range(0, n, SAMPLE_ROWS):
            yield decode(self._draw(min(SAMPLE_ROWS, n - start), random), self.schema)

    def save(self, folder: str | Path) -> Path:
        """Writes the model into the new folder `folder`: safetensors and JSON, no pickle. See `model_folder`.

        Raises:
            ModelError: if the folder exists or cannot be written.
        """
        tensors = {f"generator/{name}": value.numpy() for name, value in self.generator.state_dict().items()}
        model = {
            "kind": KIND,
            "latent": self.generator.latent,
            "hidden": list(self.generator.hidden),
            "fit": {**asdict(self.summary), "discrepancy": _finite(self.summary.discrepancy)},
        }
        return write_model(
            Path(folder), release=self.release, tensors={**tensors, "weights": self.weights}, model=model
        )

    @staticmethod
    def load(folder: str | Path) -> Synthesizer:
        """Returns the synthesizer that `save` wrote, after checking every hash.

        Raises:
            ModelError: if the folder is missing, broken or was changed.
        """
        import torch

        from noisegate.generators.table import build_table_generator

        release, tensors, model = read_model(Path(folder))
        try:
            if model["kind"] != KIND:
                raise ModelError(f"{folder}: a model of kind {model['kind']!r} is not known to this version.")
            layout = release.schema.layout
            generator = build_table_generator(layout, latent=model["latent"], hidden=model["hidden"], seed=0)
            weights = tensors.pop("weights")
            generator.load_state_dict(
                {name.removeprefix("generator/"): torch.from_numpy(value) for name, value in tensors.items()}
            )
            fit = dict(model["fit"])
            summary = FitSummary(
                **{**fit, "discrepancy": math.inf if fit["discrepancy"] is None else fit["discrepancy"]}
            )
        except (KeyError, TypeError, RuntimeError) as error:
            raise ModelError(f"{folder}: the model cannot be rebuilt: {error}") from None
        return Synthesizer(
            release=release, generator=generator.requires_grad_(False).eval(), weights=weights, summary=summary
        )

    def _draw(self, rows: int, random: torch.Generator) -> EncodedTable:
        from noisegate.generators.cells import numeric_cells
        from noisegate.generators.sampling import draw_records

        cells = [numeric_cells(column) for column in self.schema.layout.numeric]
        return draw_records(self.generator, cells, self.weights, rows, random)


def _random(seed: int | None) -> torch.Generator:
    import torch

    random = torch.Generator()
    if seed is None:
        random.seed()
    else:
        random.manual_seed(seed)
    return random


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
