"""Releases: noisy sums with their certificate, and their two files.

A release contains no record, so every package may use it. Its folder has two files::

    release.safetensors   NAME            noisy sum, float64, (dim, columns)
                          noise_std/NAME  its noise's standard deviation, float64, (1,)
    certificate.json      the certificate, which states the SHA-256 of each array

The recipient of a folder must not trust it. So `Release.load` reads only what the
hashes of the certificate cover, and `check_stated_noise` compares the noise that the
certificate states with the values themselves.
"""

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
from noisegate.privacy.accounting import total_noise_factor
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Continual, StepEvent, SumEvent, gaussian_of
from noisegate.privacy.grid import Grid
from noisegate.privacy.silos import PERIOD_PREFIX, Silos, Stream
from noisegate.schema import Schema
from noisegate.schema.schema import is_linked, schema_from_json

Floats = npt.NDArray[np.float64]

VALUES_FILE = "release.safetensors"
CERTIFICATE_FILE = "certificate.json"
# Before the name of a query in its file: the standard deviation of the query's noise.
_STD_PREFIX = "noise_std/"

# Stated noise of steps may differ from that of the event by this much, relatively.
_STD_TOLERANCE = 1e-9
# Relative rounding error of a released number: of a few operations in float64, and of
# as many additions as there are silos.
_VALUE_TOLERANCE = 1e-14
# Numbers that are rounded by more than this, in grid units, tell nothing of the grid.
_MAX_ROUNDING = 1e-2
# How far from an integer a multiple of the grid may be, beside the relative error.
_INTEGER_TOLERANCE = 1e-6
# So many noisy integers have a common divisor with a probability of about 2⁻⁴⁰: each is
# even with probability ½, and larger divisors are rarer.
_MIN_NUMBERS_FOR_DIVISOR = 40


@dataclass(frozen=True, kw_only=True, repr=False)
class Release(Shown):
    """The noisy results of a plan: noisy sums over the private records.

    Attributes:
        values: For each query, the noisy sum, float64 (dim, columns), in the units of
            the vectors of records.
        noise_std: For each query, the standard deviation of the noise on each
            coordinate, in the same units.
        certificate: What this release cost, and what was public.
        by_period: In a stream, for each query with few coordinates: its noisy sums in
            single periods, float64 (dim * columns, periods). They add up to `values`,
            and are not separate queries.
        by_period_std: For each query in `by_period`, the standard deviation of the
            noise in the last period.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import DPMERF, Gate, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> gate = Gate(pa.table({"age": [31, 58, 44]}), schema=schema, epsilon=1.0)
        >>> release = DPMERF(frequencies=5).query(gate)
        >>> {name: value.shape for name, value in release.values.items()}
        {'fourier': (10, 1), 'counts': (1, 1)}
        >>> round(release.noise_std["counts"] / release.noise_std["fourier"], 2)
        5.77
    """

    # Types stand in full, as users read them in the signature.
    values: Mapping[str, npt.NDArray[np.float64]]
    noise_std: Mapping[str, float]
    certificate: Certificate
    by_period: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    by_period_std: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Floats],
        noise_std: Mapping[str, float],
        certificate: Certificate,
    ) -> Release:
        """Creates a release from arrays with their stored names.

        In a stream, the names of sums of single periods begin with a prefix, and names
        of queries do not. In other releases a query may have any name, with or without
        the prefix.

        Args:
            arrays: Noisy sums, by stored name.
            noise_std: Standard deviation of the noise of each array, by the same names.
            certificate: Certificate of the release.
        """
        is_stream = any(isinstance(event, Continual) for event in certificate.events)
        if is_stream:
            period_names = {name for name in arrays if name.startswith(PERIOD_PREFIX)}
        else:
            period_names = set()
        return cls(
            values={
                name: array
                for name, array in arrays.items()
                if name not in period_names
            },
            noise_std={
                name: std for name, std in noise_std.items() if name not in period_names
            },
            certificate=certificate,
            by_period={
                name.removeprefix(PERIOD_PREFIX): array
                for name, array in arrays.items()
                if name in period_names
            },
            by_period_std={
                name.removeprefix(PERIOD_PREFIX): noise_std[name]
                for name in arrays
                if name in period_names
            },
        )

    def card(self) -> ResultCard:
        """Returns a summary of the release for a terminal or a notebook."""
        facts = {}
        for name, value in self.values.items():
            shape = " x ".join(str(size) for size in value.shape)
            noise = self.noise_std.get(name, math.nan)
            facts[name] = f"{shape} values, noise {noise:.4g}"
        return ResultCard(
            title=f"Release: {self.certificate.guarantee}",
            facts=facts,
            sheets=self.certificate.card().sheets,
        )

    @property
    def schema(self) -> Schema:
        """The public schema of a table or of images.

        Raises:
            ModelError: if the release is of linked tables, or states no schema.
        """
        schema = self.stated_schema
        if is_linked(schema):
            raise ModelError(
                f"the release is of linked tables ({', '.join(schema.names)}), and not "
                "of one."
            )
        return cast("Schema", schema)

    @property
    def stated_schema(self) -> Any:
        """The public schema in the certificate, of one table or of linked tables.

        Raises:
            ModelError: if the certificate states no readable schema.
        """
        try:
            return schema_from_json(self.certificate.public["schema"])
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
        """Writes the values and the certificate into a folder, which must exist.

        The certificate is written last. If the process dies in between, `load` refuses
        the folder: its certificate is missing, or states the hashes of other values.
        """
        from safetensors.numpy import save_file

        values = dict(self.values)
        noise_std = dict(self.noise_std)
        for name, sums in self.by_period.items():
            values[PERIOD_PREFIX + name] = sums
        for name, std in self.by_period_std.items():
            noise_std[PERIOD_PREFIX + name] = std
        arrays = release_arrays(values, noise_std)
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
        """Reads the release in a folder, and compares it with its certificate.

        Every array must have the hash that the certificate states, and none may be
        missing. The claimed ε is not recomputed; `Certificate.check` does that.

        Raises:
            ModelError: if a file is missing or broken, or does not match the
                certificate.
        """
        certificate = read_certificate(folder / CERTIFICATE_FILE)
        path = folder / VALUES_FILE
        arrays = read_arrays(path)
        # Hashes are of float64 bytes, so that other types could have the same ones.
        all_are_float64 = all(array.dtype == np.float64 for array in arrays.values())
        if not all_are_float64 or array_hashes(arrays) != certificate.hashes:
            raise ModelError(
                f"{path} is not the release of its certificate: hashes differ."
            )
        sums = {}
        std_arrays = {}
        for name, array in arrays.items():
            if name.startswith(_STD_PREFIX):
                std_arrays[name.removeprefix(_STD_PREFIX)] = array
            else:
                sums[name] = array
        for name in sorted({*sums, *std_arrays}):
            _check_sum(name, sums.get(name), std_arrays.get(name), path)
        noise_std = {name: float(std[0]) for name, std in std_arrays.items()}
        return cls.from_arrays(sums, noise_std, certificate)


def _check_sum(name: str, sums: Floats | None, std: Floats | None, path: Path) -> None:
    """Checks that a query has a table of numbers, and one positive standard deviation.

    The hashes may be right although the values are not, because the author of the
    values may have written the certificate.

    Args:
        name: The query.
        sums: Its noisy sums, or None if they are missing.
        std: The standard deviation of their noise, or None if it is missing.
        path: The file, for the message.

    Raises:
        ModelError: otherwise.
    """
    if sums is None or std is None or std.shape != (1,) or not 0 < std[0] < math.inf:
        raise ModelError(
            f"{path}: {name!r} must be one array beside a standard deviation, above 0."
        )
    if sums.ndim != 2 or not np.isfinite(sums).all():
        raise ModelError(
            f"{path}: the values of {name!r} must be a finite table of numbers."
        )


# Files.


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Reads the arrays of a safetensors file, by name.

    Raises:
        ModelError: if it cannot be read, is a link, or holds anything beside arrays,
            which no hash would cover.
    """
    from safetensors import SafetensorError, safe_open

    try:
        _check_is_no_link(path)
        with safe_open(path, framework="numpy") as file:
            if file.metadata():
                raise ModelError(
                    f"{path} carries text beside its arrays, which no version of "
                    "noisegate wrote."
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


def _check_is_no_link(path: Path) -> None:
    """Checks that a path is a file and not a link, whose target may change later.

    A missing file passes; opening it reports the error.

    Raises:
        ModelError: otherwise.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ModelError(
            f"{path} is a link or no file; what is verified must lie in the folder "
            "itself."
        )


def read_json(path: Path) -> Any:
    """Reads a JSON file, strictly.

    A name that stands twice in an object is refused, since programs differ in which of
    its values they take; so are numbers that are not finite.

    Raises:
        FileNotFoundError: if there is no such file.
        ModelError: if it is a link, or not such JSON.
    """
    try:
        _check_is_no_link(path)
        text = path.read_text(encoding="utf-8")
        return json.loads(
            text,
            object_pairs_hook=_object_of_unique_names,
            parse_constant=_finite_number,
            parse_float=_finite_number,
        )
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}.") from None


def _object_of_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object of its pairs; a ValueError if a name stands twice."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name stands in a table twice")
    return table


def _finite_number(text: str) -> float:
    """Returns a number of JSON; a ValueError for NaN, Infinity, and what overflows."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number")
    return value


def read_certificate(path: Path) -> Certificate:
    """Reads a certificate from a JSON file.

    Raises:
        ModelError: if the file is missing or broken, or the certificate is.
    """
    try:
        stored = read_json(path)
    except FileNotFoundError:
        raise ModelError(
            f"{path} does not exist; give the folder that `noisegate fit --out` wrote."
        ) from None
    return Certificate.from_json(stored)


def release_arrays(
    values: Mapping[str, Floats], noise_std: Mapping[str, float]
) -> dict[str, Floats]:
    """Returns everything that a release holds, by the names in its file and its hashes.

    Args:
        values: Noisy sums, by query.
        noise_std: Standard deviation of the noise, by query.

    Returns:
        The sums as they are, and each standard deviation as an array, (1,).
    """
    arrays = dict(values)
    for name, std in noise_std.items():
        arrays[_STD_PREFIX + name] = np.asarray([std])
    return arrays


def array_hashes(arrays: Mapping[str, Floats]) -> dict[str, str]:
    """Computes the SHA-256 of each array, in hexadecimal digits.

    What is hashed is the shape in text, as in `3x2:`, and the float64 bytes in
    little-endian and row-major order.

    Returns:
        The hashes, by the name of the array, in alphabetical order.
    """
    hashes = {}
    for name, array in sorted(arrays.items()):
        shape = "x".join(str(size) for size in array.shape)
        content = np.ascontiguousarray(array, dtype="<f8").tobytes()
        hashes[name] = hashlib.sha256(f"{shape}:".encode() + content).hexdigest()
    return hashes


# Whether values have the noise that the certificate states.


def check_stated_noise(release: Release, path: Path) -> None:
    """Checks that a release has the noise of its certificate's events.

    ε is computed from the events only, so a certificate could state more noise than the
    values have. For sums, the values show this: with the right noise in grid units, the
    size of a grid unit follows from the noise that the release states, and every value
    is a multiple of it. For steps, the clipping norm determines the grid.

    If the stated noise is an integer multiple of the right noise, this is detected only
    in results of `_MIN_NUMBERS_FOR_DIVISOR` numbers or more. A masked share is not
    checked, because masked integers show nothing; its merged release is checked. Events
    without Gaussian noise on sums are not checked either.

    Args:
        release: The release.
        path: File of its certificate, for the message.

    Raises:
        ModelError: if an event states other noise.
    """
    if release.certificate.is_masked_share:
        return
    for event in release.certificate.events:
        if isinstance(event, StepEvent):
            has_stated_noise = _has_stated_noise_of_steps(release, event)
        elif isinstance(event, SumEvent):
            has_stated_noise = _has_stated_noise_of_sum(release, event)
        else:
            continue
        if not has_stated_noise:
            raise ModelError(
                f"{path}: event {event.name!r} states noise_std="
                f"{gaussian_of(event).noise_std:g} in grid units, which is not the "
                f"{release.noise_std[event.name]:g} of the release in the units of its "
                "values: do not rely on it."
            )


def _has_stated_noise_of_steps(release: Release, event: StepEvent) -> bool:
    """Returns whether the noise of steps, times the grid's scale, is that of the event.

    The values of steps are what was trained on them, and show no grid.
    """
    natural_noise_std = release.noise_std[event.name]
    scale = _scale_of_steps(release.certificate, event.name)
    noise_std = natural_noise_std * scale
    stated_std = event.event.noise_std
    return abs(noise_std - stated_std) <= _STD_TOLERANCE * stated_std


def _has_stated_noise_of_sum(release: Release, event: SumEvent) -> bool:
    """Returns whether a noisy sum lies on the grid that the event's noise implies."""
    noise_std = _noise_of_total(release.certificate, event)  # in grid units
    scale = noise_std / release.noise_std[event.name]  # grid units per natural unit
    return _are_on_grid(release.values[event.name].reshape(-1) * scale)


def _noise_of_total(certificate: Certificate, event: SumEvent) -> float:
    """Computes the noise on a released sum, of however many answers it is the total.

    Args:
        certificate: States silos and streams, whose answers were added up.
        event: The event of one silo or of the stream.

    Returns:
        The standard deviation, in grid units; not a number if a stream is not stated.
    """
    if isinstance(event, Continual):
        stream = Stream.from_certificate(certificate.public, certificate.events)
        if stream is None:
            return math.nan
        noise = total_noise_factor(event.weights, stream.period, stream.window)
        return event.event.noise_std * noise
    if certificate.silos is None:
        return gaussian_of(event).noise_std
    return _noise_of_silos(certificate.silos, event)


def _noise_of_silos(silos: Silos, event: SumEvent) -> float:
    """Computes the noise on the sum of the answers of all silos, in grid units.

    Args:
        silos: The silos.
        event: The event of one of them.
    """
    if silos.colluding is not None:
        # Each silo draws a share of the noise, such that the shares of those that do
        # not collude suffice (G-32): the event states these, the sum has all.
        silo_count = len(silos.members)
        honest_count = silo_count - silos.colluding
        return gaussian_of(event).noise_std * math.sqrt(silo_count / honest_count)
    variances = [
        gaussian_of(silo_event).noise_std ** 2
        for silo in silos.members
        for silo_event in silo.events
        if silo_event.name == event.name and isinstance(silo_event, SumEvent)
    ]
    return math.sqrt(math.fsum(variances))


def _are_on_grid(numbers: Floats) -> bool:
    """Returns whether numbers are integers, but for rounding, with no common divisor.

    If the noise is stated k times too large, so is the scale, and all numbers come out
    as multiples of k; if it is stated otherwise wrong, they are no integers. Few
    numbers may have a common divisor by chance, so these are not tested for one.

    Args:
        numbers: Values times their scale, (numbers,).
    """
    # Where rounding is large, every number is an integer whatever the scale.
    is_precise = np.abs(numbers) * _VALUE_TOLERANCE < _MAX_ROUNDING
    precise_numbers = numbers[is_precise]
    integers = np.rint(precise_numbers)
    tolerances = _INTEGER_TOLERANCE + np.abs(integers) * _VALUE_TOLERANCE
    are_integers = not (np.abs(precise_numbers - integers) > tolerances).any()
    if not are_integers:
        return False
    return (
        len(integers) < _MIN_NUMBERS_FOR_DIVISOR or math.gcd(*map(int, integers)) <= 1
    )


def _scale_of_steps(certificate: Certificate, name: str) -> float:
    """Returns the grid units per unit of what a step returns.

    Args:
        certificate: States, among what is public, the norm that was clipped to.
        name: The event of the steps.

    Raises:
        ModelError: if it states no usable norm.
    """
    try:
        settings = certificate.public["gradients"][name]
        norm = float(settings["norm"])
        is_factored = settings.get("factored", False)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ModelError(
            f"the certificate states no norm of the vectors of {name!r}: do not rely "
            "on it."
        ) from None
    if not 0 < norm < math.inf:
        raise ModelError(
            f"the certificate states norm={norm!r} of {name!r}, which means nothing."
        )
    scale = Grid(norm=norm).scale
    if is_factored:
        # Imported here, since most releases do not need plans of steps.
        from noisegate.privacy.gradient_plan import factored_scale

        return factored_scale(scale)
    return scale
