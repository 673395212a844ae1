"""What leaves the gate: noisy sums and their certificate. Both sides may know it; it holds no record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError
from noisegate.privacy.certificate import Certificate, read_certificate
from noisegate.schema import Schema

VALUES_FILE = "release.safetensors"
CERTIFICATE_FILE = "certificate.json"
_STD = "noise_std/"


@dataclass(frozen=True, kw_only=True)
class Release:
    """Noisy sums over the private records.

    Attributes:
        values: For each question, the noisy sum, float64 (dim, columns), in the units of the record's vector.
        noise_std: For each question, the standard deviation of the noise on each coordinate, in the same units.
        certificate: What this cost and what was public.
    """

    values: Mapping[str, npt.NDArray[np.float64]]
    noise_std: Mapping[str, float]
    certificate: Certificate

    @property
    def schema(self) -> Schema:
        """The public schema, as the certificate states it."""
        return Schema.from_json(self.certificate.public["schema"])

    def save(self, folder: Path) -> None:
        """Writes the values and the certificate into `folder`, which must exist."""
        import json

        from safetensors.numpy import save_file

        arrays = release_arrays(self.values, self.noise_std)
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / VALUES_FILE)
        text = json.dumps(self.certificate.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        (folder / CERTIFICATE_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Release:
        """Returns the release in `folder`, checked against the hashes in its certificate.

        Raises:
            ModelError: if a file is missing, broken, or not what the certificate speaks of.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        certificate = read_certificate(folder / CERTIFICATE_FILE)
        try:
            arrays = load_file(folder / VALUES_FILE)
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{folder / VALUES_FILE} cannot be read: {error}.") from None
        if array_hashes(arrays) != dict(certificate.hashes):
            raise ModelError(
                f"{folder / VALUES_FILE} is not the release that its certificate speaks of: hashes differ."
            )
        values = {name: array for name, array in arrays.items() if not name.startswith(_STD)}
        stds = {name: float(arrays[_STD + name][0]) for name in values}
        return cls(values=values, noise_std=stds, certificate=certificate)


def release_arrays(
    values: Mapping[str, npt.NDArray[np.float64]], noise_std: Mapping[str, float]
) -> dict[str, npt.NDArray[np.float64]]:
    """Returns everything that a release holds, by the names that its file and its hashes use."""
    return {**values, **{_STD + name: np.asarray([std]) for name, std in noise_std.items()}}


def array_hashes(values: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, str]:
    """Returns the SHA-256 of each array: its shape, and its float64 bytes in little-endian order."""
    return {
        name: hashlib.sha256(
            f"{'x'.join(map(str, array.shape))}:".encode() + np.ascontiguousarray(array, dtype="<f8").tobytes()
        ).hexdigest()
        for name, array in sorted(values.items())
    }
