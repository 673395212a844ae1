"""A saved model: a folder of tensors, JSON and one page of text.

::

    MODEL/
      certificate.json       what was asked, with what noise, and (ε, δ)
      certificate.md         the same in plain words
      release.safetensors    the noisy sums; their hashes stand in the certificate
      generator.safetensors  the fitted model of records, or the classifier
      model.json             how to rebuild it, its verdict, the hash of each file, and
                             digests of the certificate and of itself

`verify` recomputes ε from the certificate and checks that the folder contains what the
certificate describes. Hashes show that nothing was changed by accident. They do not
stop somebody who computes all of them again. The other checks do: ε is computed from
the events, and the events must be those that give these values, with this noise.

Needs no torch.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError

from noisegate._version import __version__
from noisegate.atomic import check_on_disk, hidden_beside
from noisegate.errors import ModelError, said
from noisegate.privacy.certificate import Certificate, canonical_json, headline, render
from noisegate.privacy.events import (
    Adjacency,
    Batched,
    Continual,
    Sharded,
    StepEvent,
    SumEvent,
    ZeroConcentrated,
    gaussian_of,
)
from noisegate.privacy.grid import UNITS, GridBound
from noisegate.privacy.release import (
    CERTIFICATE_FILE,
    VALUES_FILE,
    Release,
    check_stated_noise,
    read_arrays,
    read_json,
)
from noisegate.privacy.schema_certificate import (
    SchemaVerification,
    check_discovery_claim,
    verify_schema,
)

FORMAT = 1
MODEL_FILE = "model.json"
GENERATOR_FILE = "generator.safetensors"
PAGE_FILE = "certificate.md"
PUBLIC_PAGE = "public.html"
"""The page that may be published with the model; no part of what is verified."""
SIGNATURE = "signature.json"
HASHED = (CERTIFICATE_FILE, PAGE_FILE, VALUES_FILE, GENERATOR_FILE)
"""The files whose hashes `model.json` has."""
_RELEASED = HASHED[:3]

# What `model.json` must have, and may have: the digest of the others, which older
# models lack.
_FIELDS = {"format", "model", "certificate", "files"}
_DIGEST = "digest"

# Thresholds are of discoveries alone.
_SUMS = SumEvent | StepEvent

# What stands behind an event's name in that of a marginal: its number and its columns,
# see `marginal_plan.marginal_name`.
_MARGINAL = re.compile(r"\d+:(\d+(,\d+)*)?")

CLASSIFIER = "locally-linear"
NETWORK_CLASSIFIER = "network-classifier"
"""What `model.json` calls classifiers, which draw no records."""
LINKED = "linked"
"""What it calls a model of linked tables."""

Tensors = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was verified of a folder.

    Attributes:
        certificate: The claim, which holds.
        recomputed_epsilon: ε that follows from its events.
        files: Files whose hashes were checked.
        others: Files of which nothing is claimed. `model.json` is one of them where it
            has no digest of itself, as in older models.
    """

    certificate: Certificate
    recomputed_epsilon: float
    files: tuple[str, ...]
    others: tuple[str, ...] = ()


def check_new(folder: Path) -> None:
    """Requires that a folder can be made, before anything costly is done."""
    if folder.exists():
        raise ModelError(
            f"{folder} exists; choose another {said('out')}, or remove it first."
        )
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise ModelError(
            f"{parent} is not a folder; make it first, or choose another {said('out')}."
        )
    if not os.access(parent, os.W_OK):
        raise ModelError(f"{parent} cannot be written; choose another {said('out')}.")


def write_folder(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Makes a folder whole or not at all.

    Args:
        folder: New.
        fill: Writes the files into a folder beside it, which is then renamed.
    """
    check_new(folder)
    try:
        with hidden_beside(folder) as beside:
            fill(beside)
            # safetensors makes files that their owner alone may read. Whoever may read
            # the folder, as the umask decided, may read them.
            for path in beside.rglob("*.safetensors"):
                path.chmod(beside.stat().st_mode & 0o666)
            beside.rename(folder)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{folder} cannot be written: {reason}.") from None
    return folder


def write_model(
    folder: Path, *, release: Release, tensors: Tensors, model: Mapping[str, Any]
) -> Path:
    """Writes a new model folder.

    Args:
        folder: New.
        release: What the model was fitted to.
        tensors: Of the fitted model or classifier.
        model: How to rebuild it, as JSON.
    """

    def fill(path: Path) -> None:
        from safetensors.numpy import save_file

        release.save(path)
        (path / PAGE_FILE).write_text(render(release.certificate), encoding="utf-8")
        contiguous = {
            name: np.ascontiguousarray(value) for name, value in tensors.items()
        }
        save_file(contiguous, path / GENERATOR_FILE)
        content = {
            "format": FORMAT,
            "model": dict(model),
            "certificate": release.certificate.digest(),
            "files": {name: file_hash(path / name) for name in HASHED},
        }
        content[_DIGEST] = description_digest(content)
        text = json.dumps(content, indent=2, allow_nan=False) + "\n"
        (path / MODEL_FILE).write_text(text, encoding="utf-8")

    return write_folder(folder, fill)


def description_digest(description: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of the contents of `model.json`, without this digest itself.

    It is computed from the canonical JSON, so the layout has no effect.
    """
    fields = {key: value for key, value in description.items() if key != _DIGEST}
    # As it will be read: keys are text, tuples are lists.
    as_read = json.loads(json.dumps(fields))
    return hashlib.sha256(canonical_json(as_read)).hexdigest()


def kind_in(folder: Path) -> Any:
    """Returns the kind of the model in a folder; a `ModelError` if none can be read."""
    return _checked_description(folder)["model"].get("kind")


def read_model(
    folder: Path,
) -> tuple[Release, dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Reads a model folder, with all hashes checked.

    Returns:
        The release, the tensors, and how to rebuild the model.

    Raises:
        ModelError: if anything is missing, broken or was changed.
    """
    description = _checked_description(folder)
    release = Release.load(folder)
    if release.certificate.digest() != description["certificate"]:
        raise ModelError(
            f"{folder / CERTIFICATE_FILE} is not the certificate that {MODEL_FILE} "
            "names."
        )
    tensors = read_arrays(folder / GENERATOR_FILE)
    for name, tensor in tensors.items():
        # A position is NaN where a record of a reference lacks a value; the model
        # checks that its column may.
        may_be_missing = name.endswith("numeric")
        if not may_be_missing and not np.isfinite(tensor).all():
            raise ModelError(
                f"{folder / GENERATOR_FILE} holds numbers that are not finite: nothing "
                "can be drawn from it."
            )
    return release, tensors, description["model"]


def verify_model(folder: Path) -> Verification:
    """Recomputes ε of a model folder and checks every hash.

    Raises:
        ModelError: if the claim does not hold.
    """
    release, _, _ = read_model(folder)
    files: tuple[str, ...] = HASHED
    if _DIGEST in read_json(folder / MODEL_FILE):
        files = (*HASHED, MODEL_FILE)
    return _verified(release, folder, files)


def verify_release(folder: Path) -> Verification:
    """Does the same of a release that nothing is fitted to yet: see `app.silos`."""
    return _verified(Release.load(folder), folder, _RELEASED)


def _verified(release: Release, folder: Path, files: tuple[str, ...]) -> Verification:
    """Checks the claim of a release.

    Args:
        release: The release, with its hashes checked.
        folder: Where it lies.
        files: Whose hashes were checked.

    Raises:
        ModelError: if the certificate states less than its events cost, other events
            than the values have, or another page.
    """
    certificate = release.certificate
    recomputed = certificate.check()
    # Raises if no schema is stated, or none that can be read.
    _ = release.stated_schema
    check_discovery_claim(certificate)
    _check_events(release, folder)
    _check_page(certificate, folder)
    others = {path.name for path in folder.iterdir()} - set(files)
    return Verification(
        certificate=certificate,
        recomputed_epsilon=recomputed,
        files=files,
        others=tuple(sorted(others)),
    )


def _check_page(certificate: Certificate, folder: Path) -> None:
    """Checks that the page of text states what the certificate states."""
    try:
        page = (folder / PAGE_FILE).read_text(encoding="utf-8")
    except OSError as error:
        raise ModelError(
            f"{folder / PAGE_FILE} cannot be read: {error.strerror}; it belongs to the "
            "folder."
        ) from None
    if page == render(certificate):
        return
    # Another version may word the page differently; its headline must be there.
    is_of_other_version = certificate.version != __version__
    if is_of_other_version and headline(certificate) in page:
        return
    raise ModelError(
        f"{folder / PAGE_FILE} does not say what {CERTIFICATE_FILE} states: do not "
        "rely on it."
    )


def verify(path: str | Path) -> Verification | SchemaVerification:
    """Recomputes ε from a certificate, and checks every hash. Needs no data.

    Args:
        path: A model folder, the folder of a release, or the certificate of a
            discovered schema.

    Returns:
        What was verified, with the recomputed ε.

    Raises:
        ModelError: if the claimed ε does not hold, or a file is missing, broken, or was
            changed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, synthesize, verify
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False] * 100})
        >>> model = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> verify(model.save("model")).recomputed_epsilon <= 1.0
        True
    """
    path = Path(path)
    check_on_disk(path, "folder")
    if path.is_file():
        return verify_schema(path)
    has_model = (path / MODEL_FILE).exists() or (path / GENERATOR_FILE).exists()
    has_release = (path / VALUES_FILE).exists()
    if has_model or not has_release:
        return verify_model(path)
    return verify_release(path)


def _check_events(release: Release, folder: Path) -> None:
    """Requires that the events are those that give the values in a folder.

    ε follows from the events. So each list of events that somebody pays for, that of
    the certificate and of each silo, must have one event for each array of values, of
    its size, with a sensitivity that a record has at least, and with its noise.

    Args:
        release: The release.
        folder: Where it lies, for messages.

    Raises:
        ModelError: if something does not hold.
    """
    certificate = release.certificate
    mechanisms = [
        event for event in certificate.events if isinstance(event, ZeroConcentrated)
    ]
    coordinates = _paid_coordinates(release, mechanisms, folder)
    paid_events = [certificate.events]
    if certificate.silos is not None:
        paid_events += [silo.events for silo in certificate.silos.members]
    for events in paid_events:
        sums = [event for event in events if isinstance(event, _SUMS)]
        stated = {event.name: gaussian_of(event).coordinates for event in sums}
        has_all = len(events) == len(coordinates) + len(mechanisms)
        if not has_all or stated != coordinates:
            raise ModelError(
                f"{folder / CERTIFICATE_FILE} states other releases than "
                f"{VALUES_FILE} holds."
            )
    for events in paid_events:
        for event in events:
            if isinstance(event, _SUMS):
                _check_sensitivity(event, certificate, folder)
    for mechanism in mechanisms:
        _check_rho(mechanism, release, folder)
    check_stated_noise(release, folder / CERTIFICATE_FILE)


def _paid_coordinates(
    release: Release, mechanisms: Sequence[ZeroConcentrated], folder: Path
) -> dict[str, int]:
    """Returns how many coordinates the event of each array of values must state.

    That is the size of the array, with four exceptions: see the comments.

    Args:
        release: The release.
        mechanisms: Those that chose their queries themselves; their values are checked
            by `_check_rho`.
        folder: For messages.
    """
    certificate = release.certificate
    # Values of such a mechanism are named after its event.
    prefixes = tuple(f"{event.name}/" for event in mechanisms)
    sizes = {
        name: values.size
        for name, values in release.values.items()
        if not name.startswith(prefixes)
    }
    # A masked share has each number in two halves (`gate.silos.keys.halves_of_words`).
    if "secure_sum" in certificate.public and certificate.silos is None:
        sizes = {name: size // 2 for name, size in sizes.items()}
    # The event of a stream states what all its periods release, to come or not.
    stream = certificate.stream
    if stream is not None:
        for name, values in release.by_period.items():
            if values.shape != (sizes.get(name), stream.period):
                raise ModelError(
                    f"{folder / VALUES_FILE}: its sums of single periods are not those "
                    "of its queries."
                )
        sizes = {name: size * stream.periods for name, size in sizes.items()}
    sums = {
        event.name: event for event in certificate.events if isinstance(event, _SUMS)
    }
    coordinates = {name: gaussian_of(event).coordinates for name, event in sums.items()}
    # The size of an adaptive query was chosen in the course of the run. Its event
    # states the largest that there could be, and that was paid for.
    adaptive = certificate.public.get("adaptive")
    for name, size in sizes.items():
        is_adaptive = isinstance(adaptive, list) and name in adaptive
        if is_adaptive and name in sums and size <= coordinates[name]:
            sizes[name] = coordinates[name]
    # What was trained on the sums of steps is post-processing, of any size.
    for name, size in _trained_sizes(certificate, folder).items():
        has_steps = isinstance(sums.get(name), StepEvent)
        if has_steps and sizes.get(name) == size:
            sizes[name] = coordinates[name]
    return sizes


def _trained_sizes(certificate: Certificate, folder: Path) -> dict[str, int]:
    """Returns how many numbers were trained on the sums of each event.

    Only events whose values are what was trained on them, and not the sums themselves.
    """
    try:
        runs = certificate.public.get("gradients", {}).items()
        shapes = {
            name: run["trained"].values() for name, run in runs if "trained" in run
        }
        return {
            name: sum(math.prod(map(int, shape)) for shape in shapes_of_event)
            for name, shapes_of_event in shapes.items()
        }
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{folder / CERTIFICATE_FILE}: the shapes of what was trained are broken."
        ) from None


def _check_sensitivity(
    event: SumEvent | StepEvent, certificate: Certificate, folder: Path
) -> None:
    """Requires that an event states no lower sensitivity than a record has."""
    smallest_bound = GridBound(units=UNITS, nonnegative=True).of_unit(
        certificate.contributions or 1
    )
    minimum: float
    if isinstance(event, Batched):
        minimum = 2 * UNITS
    elif isinstance(event, Sharded):
        # At rate 1 no shard may be left out, and its vector may be without negative
        # coordinates.
        if event.rate == 1:
            minimum = smallest_bound.sensitivity(Adjacency.REPLACE_ONE)
        else:
            minimum = 2 * UNITS
    elif isinstance(event, StepEvent):
        # A step states the norm of one record, whatever the adjacency.
        minimum = UNITS
    else:
        minimum = smallest_bound.sensitivity(certificate.adjacency)
    if isinstance(event, Continual):
        # It states a record's norm beside that of all periods.
        sensitivity = event.record
    else:
        sensitivity = gaussian_of(event).sensitivity
    if sensitivity < minimum:
        raise ModelError(
            f"{folder / CERTIFICATE_FILE}: event {event.name!r} states "
            f"sensitivity={sensitivity:g}, below the {minimum} that a record has on "
            f"the grid under {certificate.adjacency.value}."
        )


def _check_rho(event: ZeroConcentrated, release: Release, folder: Path) -> None:
    """Requires that measuring cost no more than an adaptive mechanism states.

    What it spent on choosing its queries is not seen, and only adds to it.

    Args:
        event: Of the mechanism, in zero-concentrated differential privacy.
        release: The release, with its noisy tables.
        folder: For messages.
    """
    certificate = release.certificate
    # OpenDP counts a replaced record as two, and noise on counts grows with the
    # distance (`neighbour_distance`).
    distance = certificate.contributions or 1
    if certificate.adjacency is Adjacency.REPLACE_ONE:
        distance *= 2
    prefix = f"{event.name}/"
    tables = [name for name in release.values if name.startswith(prefix)]
    if not all(_MARGINAL.fullmatch(name.removeprefix(prefix)) for name in tables):
        raise ModelError(
            f"{folder / VALUES_FILE} holds values of {event.name!r} that are not noisy "
            "tables of columns."
        )
    # A Gaussian of standard deviation s on counts that move by d costs d² / 2s²: Bun
    # and Steinke (TCC 2016), https://arxiv.org/abs/1605.02065, proposition 1.6.
    noise_stds = [release.noise_std[name] for name in tables]
    measured_rho = math.fsum(
        distance**2 / (2 * std**2) if std > 0 else math.inf for std in noise_stds
    )
    if not measured_rho <= event.rho * (1 + 1e-6):
        raise ModelError(
            f"{folder / CERTIFICATE_FILE}: event {event.name!r} states "
            f"rho={event.rho:g}, but values with the noise in {VALUES_FILE} cost "
            f"rho={measured_rho:g}: do not rely on it."
        )


def _checked_description(folder: Path) -> dict[str, Any]:
    """Reads `model.json`, and checks its digest and the hash of each file.

    Raises:
        ModelError: if it is missing, broken or of another format, or if it or a file
            was changed.
    """
    path = folder / MODEL_FILE
    other_format = f"{path} is not of a format that this version of noisegate reads."
    try:
        description: dict[str, Any] = read_json(path)
        if set(description) - {_DIGEST} != _FIELDS:
            raise ModelError(other_format)
        # True would be equal to 1.
        number = description["format"]
        if type(number) is not int or number != FORMAT:
            raise ModelError(other_format)
        digest = description_digest(description)
        if description.get(_DIGEST, digest) != digest:
            raise ModelError(
                f"{path} was changed after the model was written: its digest differs."
            )
        files = description["files"]
        if set(files) != set(HASHED) or not isinstance(description["model"], dict):
            raise ModelError(other_format)
        for name, expected_hash in files.items():
            _check_file(folder, name, expected_hash)
    except FileNotFoundError as error:
        raise ModelError(
            f"{error.filename} does not exist; {folder} is not a whole model folder."
        ) from None
    except (
        OSError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        RecursionError,
    ) as error:
        raise ModelError(
            f"{path} is broken: {type(error).__name__}: {error}."
        ) from None
    return description


def _check_file(folder: Path, name: str, expected_hash: str) -> None:
    """Requires that a file of a model is a plain file with the hash that is stated."""
    file = folder / name
    if file.is_symlink() or not file.is_file():
        raise ModelError(
            f"{file} does not exist, or is a link; {folder} is not a whole model folder."
        )
    if file_hash(file) != expected_hash:
        raise ModelError(
            f"{file} was changed after the model was written: its hash differs."
        )


def file_hash(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
