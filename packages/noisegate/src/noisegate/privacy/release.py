"""What leaves the gate, noisy sums and their certificate, and its files. Both sides may know it; it holds no record."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from noisegate.cards import ResultCard, Shown
from noisegate.errors import ModelError
from noisegate.privacy.certificate import Certificate
from noisegate.schema import Schema
from noisegate.schema.schema import is_linked, schema_from_json

VALUES_FILE = "release.safetensors"
CERTIFICATE_FILE = "certificate.json"
_STD = "noise_std/"


@dataclass(frozen=True, kw_only=True, repr=False)
class Release(Shown):
    """Noisy sums over the private records.

    Attributes:
        values: For each question, the noisy sum, float64 (dim, columns), in the units of the record's vector.
        noise_std: For each question, the standard deviation of the noise on each coordinate, in the same units.
        certificate: What this cost and what was public.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import DPMERF, Gate, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> release = DPMERF(frequencies=5).query(Gate(pa.table({"age": [31, 58, 44]}), schema=schema, epsilon=1.0))
        >>> {name: value.shape for name, value in release.values.items()}
        {'fourier': (10, 1), 'counts': (1, 1)}
        >>> round(release.noise_std["counts"] / release.noise_std["fourier"], 2)
        5.77
    """

    values: Mapping[str, npt.NDArray[np.float64]]
    noise_std: Mapping[str, float]
    certificate: Certificate

    def card(self) -> ResultCard:
        """Returns what was released, as a card for a terminal or a notebook."""
        facts = {
            name: f"{' x '.join(map(str, value.shape))} numbers, noise {self.noise_std.get(name, math.nan):.4g}"
            for name, value in self.values.items()
        }
        return ResultCard(
            title=f"Release: {self.certificate.guarantee}", facts=facts, sheets=self.certificate.card().sheets
        )

    @property
    def schema(self) -> Schema:
        """The public schema of a table or of images; a `ModelError` where the release is of linked tables."""
        found = self.stated_schema
        if is_linked(found):
            raise ModelError(f"the release is of linked tables ({', '.join(found.names)}), and not of one.")
        return cast("Schema", found)

    @property
    def stated_schema(self) -> Any:
        """The public schema, as the certificate states it."""
        try:
            stated = self.certificate.public["schema"]
            return schema_from_json(stated)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ModelError(f"the certificate states no schema: {type(error).__name__} at {error}.") from None

    def save(self, folder: Path) -> None:
        """Writes the values and the certificate into `folder`, which must exist."""
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
        certificate = read_certificate(folder / CERTIFICATE_FILE)
        arrays = read_arrays(folder / VALUES_FILE)
        if any(array.dtype != np.float64 for array in arrays.values()) or array_hashes(arrays) != certificate.hashes:
            raise ModelError(
                f"{folder / VALUES_FILE} is not the release that its certificate speaks of: hashes differ."
            )
        values = {name: array for name, array in arrays.items() if not name.startswith(_STD)}
        stds = {name.removeprefix(_STD): array for name, array in arrays.items() if name.startswith(_STD)}
        for name in {*values, *stds}:
            value, std = values.get(name), stds.get(name)
            if value is None or std is None or std.shape != (1,) or not 0 < std[0] < math.inf:
                raise ModelError(
                    f"{folder / VALUES_FILE}: {name!r} must be one array of values beside one standard deviation of "
                    "its noise, above 0."
                )
            if value.ndim != 2 or not np.isfinite(value).all():
                raise ModelError(f"{folder / VALUES_FILE}: the values of {name!r} must be a finite table of numbers.")
        noise_std = {name: float(std[0]) for name, std in stds.items()}
        return cls(values=values, noise_std=noise_std, certificate=certificate)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns the arrays of a file, which must hold nothing else."""
    from safetensors import SafetensorError, safe_open

    try:
        _check_own_file(path)
        with safe_open(path, framework="numpy") as file:
            if file.metadata():
                raise ModelError(f"{path} carries text beside its arrays, which no version of noisegate wrote.")
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ModelError(f"{path} cannot be read: {error}.") from None


def _check_own_file(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ModelError(f"{path} is a link or no file; what is verified must lie in the folder itself.")


def read_json(path: Path) -> Any:
    """Returns what a JSON file says, if it says it once and in numbers; a FileNotFoundError if there is none."""
    try:
        _check_own_file(path)
        text = path.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=_table, parse_constant=_finite, parse_float=_finite)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is no JSON that can be relied on: {error}.") from None


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name stands in a table twice")
    return table


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no number")
    return value


def read_certificate(path: Path) -> Certificate:
    """Returns the certificate in the file `path`."""
    try:
        stored = read_json(path)
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist; give the folder that `noisegate fit --out` wrote.") from None
    return Certificate.from_json(stored)


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
