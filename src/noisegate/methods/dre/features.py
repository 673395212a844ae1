"""What a density ratio is estimated on: a public feature of each record, of length about 1 at most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.classifiers.inputs import Inputs
from noisegate.schema import EncodedTable


@dataclass(frozen=True, kw_only=True, eq=False)
class TableFeatures:
    """One-hot codes and scaled numbers of a table's row, without its label: see `Inputs`, whose length is 1 at most.

    It adds nothing up over columns, so a row's vector is a function of that row alone, bit for bit.

    Attributes:
        inputs: Of the schema.
        coded: Places of the coded columns that are no label.
    """

    inputs: Inputs
    coded: tuple[int, ...]

    norm: float = 1.0
    nonnegative: bool = False

    @property
    def dim(self) -> int:
        """Length of the vector."""
        return len(self.inputs.names)

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns vectors, float32 (rows, dim)."""
        import torch

        numeric = torch.from_numpy(records.numeric.astype(np.float32))
        found = self.inputs(numeric, torch.from_numpy(records.codes[:, list(self.coded)].astype(np.int64)))
        vectors: npt.NDArray[np.float32] = found.numpy()
        return vectors
