"""What leaves the gate, noisy sums and their certificate, and its files. Both sides may know it; it holds no record."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from noisegate.cards import ResultCard, Shown
from noisegate.errors import ModelError
from noisegate.privacy.accounting import prefix_noise
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import (
    ContinualGaussianEvent,
    Event,
    GaussianEvent,
    SampledGaussianEvent,
)
from noisegate.privacy.grid import Grid
from noisegate.privacy.silos import OF_PERIODS, Stream
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
        by_period: Of a stream, for each question of few numbers, its noisy sums in single periods, float64
            (dim * columns, periods). They add up to `values`, and are no questions of their own.
        by_period_std: For each of these, the standard deviation of the noise in the last period.

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
    by_period: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    by_period_std: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        values: Mapping[str, npt.NDArray[np.float64]],
        noise_std: Mapping[str, float],
        certificate: Certificate,
    ) -> Release:
        """Returns the release of arrays by their stored names, which tell sums of single periods from questions."""
        if any(
            isinstance(event, ContinualGaussianEvent) for event in certificate.events
        ):
            singles = {name for name in values if name.startswith(OF_PERIODS)}
        else:
            singles = set()
        return cls(
            values={
                name: value for name, value in values.items() if name not in singles
            },
            noise_std={
                name: std for name, std in noise_std.items() if name not in singles
            },
            certificate=certificate,
            by_period={
                name.removeprefix(OF_PERIODS): values[name]
                for name in values
                if name in singles
            },
            by_period_std={
                name.removeprefix(OF_PERIODS): noise_std[name]
                for name in values
                if name in singles
            },
        )

    def card(self) -> ResultCard:
        """Returns what was released, as a card for a terminal or a notebook."""
        facts = {
            name: f"{' x '.join(map(str, value.shape))} values, noise {self.noise_std.get(name, math.nan):.4g}"
            for name, value in self.values.items()
        }
        return ResultCard(
            title=f"Release: {self.certificate.guarantee}",
            facts=facts,
            sheets=self.certificate.card().sheets,
        )

    @property
    def schema(self) -> Schema:
        """The public schema of a table or of images; a `ModelError` where the release is of linked tables."""
        found = self.stated_schema
        if is_linked(found):
            raise ModelError(
                f"the release is of linked tables ({', '.join(found.names)}), and not of one."
            )
        return cast("Schema", found)

    @property
    def stated_schema(self) -> Any:
        """The public schema, as the certificate states it."""
        try:
            stated = self.certificate.public["schema"]
            return schema_from_json(stated)
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
        ) as error:
            raise ModelError(
                f"the certificate states no schema: {type(error).__name__} at {error}."
            ) from None

    def save(self, folder: Path) -> None:
        """Writes the values and the certificate into `folder`, which must exist."""
        from safetensors.numpy import save_file

        singles = {OF_PERIODS + name: value for name, value in self.by_period.items()}
        single_stds = {
            OF_PERIODS + name: std for name, std in self.by_period_std.items()
        }
        arrays = release_arrays(
            {**self.values, **singles}, {**self.noise_std, **single_stds}
        )
        save_file(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()},
            folder / VALUES_FILE,
        )
        text = json.dumps(
            self.certificate.to_json(), indent=2, ensure_ascii=False, allow_nan=False
        )
        (folder / CERTIFICATE_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Release:
        """Returns the release in `folder`, checked against the hashes in its certificate.

        Raises:
            ModelError: if a file is missing, broken, or not what the certificate speaks of.
        """
        certificate = read_certificate(folder / CERTIFICATE_FILE)
        arrays = read_arrays(folder / VALUES_FILE)
        if (
            any(array.dtype != np.float64 for array in arrays.values())
            or array_hashes(arrays) != certificate.hashes
        ):
            raise ModelError(
                f"{folder / VALUES_FILE} is not the release that its certificate speaks of: hashes differ."
            )
        values = {
            name: array for name, array in arrays.items() if not name.startswith(_STD)
        }
        stds = {
            name.removeprefix(_STD): array
            for name, array in arrays.items()
            if name.startswith(_STD)
        }
        for name in {*values, *stds}:
            value, std = values.get(name), stds.get(name)
            if (
                value is None
                or std is None
                or std.shape != (1,)
                or not 0 < std[0] < math.inf
            ):
                raise ModelError(
                    f"{folder / VALUES_FILE}: {name!r} must be one array beside a standard deviation, above 0."
                )
            if value.ndim != 2 or not np.isfinite(value).all():
                raise ModelError(
                    f"{folder / VALUES_FILE}: the values of {name!r} must be a finite table of numbers."
                )
        noise_std = {name: float(std[0]) for name, std in stds.items()}
        return cls.of(values, noise_std, certificate)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns the arrays of a file, which must hold nothing else."""
    from safetensors import SafetensorError, safe_open

    try:
        _check_own_file(path)
        with safe_open(path, framework="numpy") as file:
            if file.metadata():
                raise ModelError(
                    f"{path} carries text beside its arrays, which no version of noisegate wrote."
                )
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (
        OSError,
        SafetensorError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
    ) as error:
        raise ModelError(f"{path} cannot be read: {error}.") from None


def _check_own_file(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ModelError(
            f"{path} is a link or no file; what is verified must lie in the folder itself."
        )


def read_json(path: Path) -> Any:
    """Returns what a JSON file says, if it says it once and in numbers; a FileNotFoundError if there is none."""
    try:
        _check_own_file(path)
        text = path.read_text(encoding="utf-8")
        return json.loads(
            text, object_pairs_hook=_table, parse_constant=_finite, parse_float=_finite
        )
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}.") from None


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name stands in a table twice")
    return table


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a number")
    return value


def read_certificate(path: Path) -> Certificate:
    """Returns the certificate in the file `path`."""
    try:
        stored = read_json(path)
    except FileNotFoundError:
        raise ModelError(
            f"{path} does not exist; give the folder that `noisegate fit --out` wrote."
        ) from None
    return Certificate.from_json(stored)


def release_arrays(
    values: Mapping[str, npt.NDArray[np.float64]], noise_std: Mapping[str, float]
) -> dict[str, npt.NDArray[np.float64]]:
    """Returns everything that a release holds, by the names that its file and its hashes use."""
    return {
        **values,
        **{_STD + name: np.asarray([std]) for name, std in noise_std.items()},
    }


def array_hashes(values: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, str]:
    """Returns the SHA-256 of each array: its shape, and its float64 bytes in little-endian order."""
    return {
        name: hashlib.sha256(
            f"{'x'.join(map(str, array.shape))}:".encode()
            + np.ascontiguousarray(array, dtype="<f8").tobytes()
        ).hexdigest()
        for name, array in sorted(values.items())
    }


_SAME = 1e-9
# Of a number in float64, a few operations and as many additions as there are silos later.
_ROUNDED = 1e-14
# So many whole numbers, noisy as they are, have no common divisor but once in 2⁴⁰ times.
_ENOUGH = 40


def check_stated_noise(release: Release, where: Path) -> None:
    """Refuses a release whose noise is not that of its certificate's events, by a `ModelError`.

    Shares under masks are left out: masked words tell nothing. (Their merged release is not.) An event whose noise is a
    whole multiple of what it was is noticed where its answer has 40 numbers or more.
    """
    certificate = release.certificate
    if "secure_sum" in certificate.public and certificate.silos is None:
        return
    for event in certificate.events:
        if isinstance(event, SampledGaussianEvent):
            stated = release.noise_std[event.name] * _scale(certificate, event.name)
            fits = abs(stated - event.noise_std) <= _SAME * event.noise_std
        elif isinstance(event, GaussianEvent):
            scale = _total(certificate, event) / release.noise_std[event.name]
            fits = _whole(release.values[event.name].reshape(-1) * scale)
        else:
            continue
        if not fits:
            raise ModelError(
                f"{where}: event {event.name!r} states noise_std={event.noise_std:g} in grid units, which is not the "
                f"{release.noise_std[event.name]:g} of the release in the units of its values: do not rely on it."
            )


def _total(certificate: Certificate, event: GaussianEvent) -> float:
    """Returns the noise on a released sum in grid units: that of all silos, where several were added up."""
    silos = certificate.silos
    if isinstance(event, ContinualGaussianEvent):
        stream = Stream.of(certificate.public, certificate.events)
        return (
            event.noise_std * prefix_noise(event.weights, stream.period, stream.window)
            if stream
            else math.nan
        )
    if silos is None:
        return event.noise_std
    if (
        silos.colluding is not None
    ):  # each has a share of the noise, of which those who do not collude suffice
        return event.noise_std * math.sqrt(
            len(silos.members) / (len(silos.members) - silos.colluding)
        )
    same: list[Event] = [
        one for silo in silos.members for one in silo.events if one.name == event.name
    ]
    return math.sqrt(
        math.fsum(one.noise_std**2 for one in same if isinstance(one, GaussianEvent))
    )


def _whole(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Returns whether numbers are whole but for rounding, and not all multiples of one: too coarse a grid."""
    told = np.abs(numbers) * _ROUNDED < 1e-2  # larger ones are whole whatever the scale
    nearest = np.rint(numbers[told])
    if (np.abs(numbers[told] - nearest) > 1e-6 + np.abs(nearest) * _ROUNDED).any():
        return False
    return len(nearest) < _ENOUGH or math.gcd(*map(int, nearest)) <= 1


def _scale(certificate: Certificate, name: str) -> float:
    """Returns the grid units per unit of what a step returns."""
    try:
        run = certificate.public["gradients"][name]
        norm, factored = float(run["norm"]), run.get("factored", False)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ModelError(
            f"the certificate states no norm of the vectors of {name!r}: do not rely on it."
        ) from None
    if not 0 < norm < math.inf:
        raise ModelError(
            f"the certificate states norm={norm!r} of {name!r}, which means nothing."
        )
    scale = Grid(norm=norm).scale
    if factored:
        from noisegate.privacy.gradient_plan import factored_scale

        return factored_scale(scale)
    return scale
