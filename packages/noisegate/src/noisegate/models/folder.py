"""A saved model: a folder of safetensors, JSON and one page in plain words, whose hashes hang together. Needs no torch.

::

    MODEL/
      certificate.json       what was asked, with what noise, and (ε, δ)
      certificate.md         the same in plain words
      release.safetensors    the noisy sums; their hashes stand in the certificate
      generator.safetensors  the fitted model of records, or the classifier
      model.json             how to rebuild it, its verdict, each file's hash, digests of the certificate and of itself

Whoever redoes all hashes can still claim no ε that the events do not give.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
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
    BatchGaussianEvent,
    GaussianEvent,
    SampledGaussianEvent,
    ShardGaussianEvent,
    ZeroConcentratedEvent,
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
MODEL_FILE, GENERATOR_FILE, PAGE_FILE = (
    "model.json",
    "generator.safetensors",
    "certificate.md",
)
PUBLIC_PAGE, SIGNATURE = "public.html", "signature.json"
"""The page that may be published with the model; no part of what is verified."""
HASHED = (CERTIFICATE_FILE, PAGE_FILE, VALUES_FILE, GENERATOR_FILE)
_RELEASED = HASHED[:3]
_FIELDS = {"format", "model", "certificate", "files"}
_DIGEST = "digest"  # of the other fields; older models have none
_SUMS = GaussianEvent, SampledGaussianEvent  # thresholds are of discoveries alone
_TABLE = re.compile(r"\d+:(\d+(,\d+)*)?")  # `marginal_name`, after the event
CLASSIFIER, NETWORK_CLASSIFIER = "locally-linear", "network-classifier"
"""What `model.json` calls classifiers, which draw no records."""
LINKED = "linked"
"""What it calls a model of linked tables."""

Tensors = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What `verify_model` found: the certificate, ε from its events, the files whose hashes were checked, and others.

    Of `others` nothing is claimed; `model.json` is one of them where it has no digest of itself, as of old.
    """

    certificate: Certificate
    recomputed_epsilon: float
    files: tuple[str, ...]
    others: tuple[str, ...] = ()


def check_new(folder: Path) -> None:
    """Checks that `folder` can be made, before anything costly is done."""
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
    """Makes `folder` whole or not at all: `fill` writes beside it, and a rename puts it in place."""
    check_new(folder)
    try:
        with hidden_beside(folder) as beside:
            fill(beside)
            # What safetensors writes is the owner's alone; of the folder itself the umask has decided.
            for path in beside.rglob("*.safetensors"):
                path.chmod(beside.stat().st_mode & 0o666)
            beside.rename(folder)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{folder} cannot be written: {getattr(error, 'strerror', None) or error}."
        ) from None
    return folder


def write_model(
    folder: Path, *, release: Release, tensors: Tensors, model: Mapping[str, Any]
) -> Path:
    """Writes a new model folder: the tensors of the fitted model or classifier, and how to rebuild it as JSON."""

    def fill(path: Path) -> None:
        from safetensors.numpy import save_file

        release.save(path)
        (path / PAGE_FILE).write_text(render(release.certificate), encoding="utf-8")
        save_file(
            {name: np.ascontiguousarray(value) for name, value in tensors.items()},
            path / GENERATOR_FILE,
        )
        content = {
            "format": FORMAT,
            "model": dict(model),
            "certificate": release.certificate.digest(),
            "files": {name: file_hash(path / name) for name in HASHED},
        }
        content[_DIGEST] = description_digest(content)
        (path / MODEL_FILE).write_text(
            json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8"
        )

    return write_folder(folder, fill)


def description_digest(description: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of the canonical form of what `model.json` says, but for this digest."""
    said = json.loads(
        json.dumps({key: value for key, value in description.items() if key != _DIGEST})
    )
    return hashlib.sha256(canonical_json(said)).hexdigest()


def kind_in(folder: Path) -> Any:
    """Returns the kind of the model in a folder; a `ModelError` where none can be read."""
    return _checked_description(folder)["model"].get("kind")


def read_model(
    folder: Path,
) -> tuple[Release, dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Returns release, tensors and description; a ModelError if anything is missing, broken or was changed."""
    description = _checked_description(folder)
    release = Release.load(folder)
    if release.certificate.digest() != description["certificate"]:
        raise ModelError(
            f"{folder / CERTIFICATE_FILE} is not the certificate that {MODEL_FILE} names."
        )
    tensors = read_arrays(folder / GENERATOR_FILE)
    # A position is NaN where a record of a reference lacks a value; the model checks that its column may.
    if not all(
        np.isfinite(tensor).all()
        for name, tensor in tensors.items()
        if not name.endswith("numeric")
    ):
        raise ModelError(
            f"{folder / GENERATOR_FILE} holds numbers that are not finite: nothing can be drawn from it."
        )
    return release, tensors, description["model"]


def verify_model(folder: Path) -> Verification:
    """Recomputes ε from the certificate's events and checks every hash; a ModelError if the claim does not hold."""
    release, _, _ = read_model(folder)
    described = (MODEL_FILE,) if _DIGEST in read_json(folder / MODEL_FILE) else ()
    return _verified(release, folder, (*HASHED, *described))


def verify_release(folder: Path) -> Verification:
    """Does the same of a release that nothing is fitted to yet: see `noisegate.app.silos`."""
    return _verified(Release.load(folder), folder, _RELEASED)


def _verified(release: Release, folder: Path, files: tuple[str, ...]) -> Verification:
    certificate = release.certificate
    recomputed = certificate.check()
    _ = release.stated_schema  # stated, and one that can be read
    check_discovery_claim(certificate)
    _check_events(release, folder)
    try:
        page = (folder / PAGE_FILE).read_text(encoding="utf-8")
    except OSError as error:
        raise ModelError(
            f"{folder / PAGE_FILE} cannot be read: {error.strerror}; it belongs to the folder."
        ) from None
    # Another version may word the page differently; what it states must still be the certificate's.
    if page != render(certificate) and (
        certificate.version == __version__ or headline(certificate) not in page
    ):
        raise ModelError(
            f"{folder / PAGE_FILE} does not say what {CERTIFICATE_FILE} states: do not rely on it."
        )
    others = tuple(sorted({path.name for path in folder.iterdir()} - set(files)))
    return Verification(
        certificate=certificate,
        recomputed_epsilon=recomputed,
        files=files,
        others=others,
    )


def verify(path: str | Path) -> Verification | SchemaVerification:
    """Recomputes ε of what was handed over from its certificate, and checks every hash; needs no data.

    That is a model folder, the folder of a release, or the certificate of a discovered schema, which lies beside it.

    Raises:
        ModelError: if the claim does not hold, or anything is missing, broken or was changed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, synthesize, verify
        >>> from noisegate.schema import Boolean
        >>> made = synthesize(pa.table({"ill": [True, False] * 100}), schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> verify(made.save("model")).recomputed_epsilon <= 1.0
        True
    """
    path = Path(path)
    check_on_disk(path, "folder")
    if path.is_file():
        return verify_schema(path)
    model = (
        any((path / name).exists() for name in (MODEL_FILE, GENERATOR_FILE))
        or not (path / VALUES_FILE).exists()
    )
    return verify_model(path) if model else verify_release(path)


def _check_events(release: Release, folder: Path) -> None:
    """Checks that the certificate's events, their sizes and sensitivities are those that give what the folder holds."""
    certificate = release.certificate
    # The values of an adaptive mechanism are named after its event; what they are was chosen in the course of the run.
    concentrated = [
        event
        for event in certificate.events
        if isinstance(event, ZeroConcentratedEvent)
    ]
    adaptive = tuple(f"{event.name}/" for event in concentrated)
    events = {
        event.name: event for event in certificate.events if isinstance(event, _SUMS)
    }
    sizes = {
        name: values.size
        for name, values in release.values.items()
        if not name.startswith(adaptive)
    }
    if "secure_sum" in certificate.public and certificate.silos is None:
        sizes = {
            name: size // 2 for name, size in sizes.items()
        }  # each number in two halves: `masks.as_numbers`
    if (
        stream := certificate.stream
    ) is not None:  # the event states what all periods release, to come or not
        singles = {name: values.shape for name, values in release.by_period.items()}
        if any(
            shape != (sizes.get(name), stream.period) for name, shape in singles.items()
        ):
            raise ModelError(
                f"{folder / VALUES_FILE}: its sums of single periods are not those of its queries."
            )
        sizes = {name: size * stream.periods for name, size in sizes.items()}
    later = certificate.public.get("adaptive")
    for name, size in sizes.items():
        # Its size was chosen in the course of the run; the event states the largest, which is what was paid for.
        if (
            isinstance(later, list)
            and name in later
            and name in events
            and size <= events[name].coordinates
        ):
            sizes[name] = events[name].coordinates
    for name, size in _trained(certificate, folder).items():
        # What was trained on the sums of an event: post-processing, of any size.
        if (
            isinstance(events.get(name), SampledGaussianEvent)
            and sizes.get(name) == size
        ):
            sizes[name] = events[name].coordinates
    paid = [
        certificate.events,
        *(
            one.events
            for one in (certificate.silos.members if certificate.silos else ())
        ),
    ]
    summed = [
        [event for event in events_of if isinstance(event, _SUMS)] for events_of in paid
    ]
    known = all(len(events_of) == len(sizes) + len(concentrated) for events_of in paid)
    if not known or any(
        {event.name: event.coordinates for event in sums} != sizes for sums in summed
    ):
        raise ModelError(
            f"{folder / CERTIFICATE_FILE} speaks of other releases than {VALUES_FILE} holds."
        )
    least = GridBound(units=UNITS, nonnegative=True).of_unit(
        certificate.contributions or 1
    )
    for event in (event for sums in summed for event in sums):
        below, of = (
            least.sensitivity(certificate.adjacency),
            getattr(event, "record", event.sensitivity),
        )
        if isinstance(event, BatchGaussianEvent):
            below = 2 * UNITS
        elif isinstance(event, ShardGaussianEvent):
            # Of vectors without negative coordinates, where no shard may be left out.
            below = (
                least.sensitivity(Adjacency.REPLACE_ONE)
                if event.rate == 1
                else 2 * UNITS
            )
        elif isinstance(event, SampledGaussianEvent):
            below = (
                UNITS  # a step states the norm of one record, whatever the adjacency
            )
        if of < below:
            raise ModelError(
                f"{folder / CERTIFICATE_FILE}: event {event.name!r} states sensitivity={of:g}, "
                f"below the {below} that a record has on the grid under {certificate.adjacency.value}."
            )
    for mechanism in concentrated:
        _check_rho(mechanism, release, folder)
    check_stated_noise(release, folder / CERTIFICATE_FILE)


def _trained(certificate: Certificate, folder: Path) -> dict[str, int]:
    """Returns how many numbers were trained on the sums of each event, where they are not the event's own."""
    try:
        runs = certificate.public.get("gradients", {}).items()
        trained = {
            name: run["trained"].values() for name, run in runs if "trained" in run
        }
        return {
            name: sum(math.prod(map(int, shape)) for shape in shapes)
            for name, shapes in trained.items()
        }
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{folder / CERTIFICATE_FILE}: the shapes of what was trained are broken."
        ) from None


def _check_rho(event: ZeroConcentratedEvent, release: Release, folder: Path) -> None:
    """Checks that measuring alone, without choosing, cost no more than the event states."""
    certificate = release.certificate
    # OpenDP counts a replaced record as two (`MarginalPlan.distance`), and noise on counts grows with the distance.
    distance = (certificate.contributions or 1) * (
        2 if certificate.adjacency is Adjacency.REPLACE_ONE else 1
    )
    tables = [name for name in release.values if name.startswith(f"{event.name}/")]
    if not all(
        _TABLE.fullmatch(name.removeprefix(f"{event.name}/")) for name in tables
    ):
        raise ModelError(
            f"{folder / VALUES_FILE} holds values of {event.name!r} that are not noisy tables of columns."
        )
    stds = [release.noise_std[name] for name in tables]
    spent = math.fsum(
        distance**2 / (2 * std**2) if std > 0 else math.inf for std in stds
    )
    if not spent <= event.rho * (1 + 1e-6):
        raise ModelError(
            f"{folder / CERTIFICATE_FILE}: event {event.name!r} states rho={event.rho:g}, but values with the noise in "
            f"{VALUES_FILE} cost rho={spent:g}: do not rely on it."
        )


def _checked_description(folder: Path) -> dict[str, Any]:
    path = folder / MODEL_FILE
    try:
        description: dict[str, Any] = read_json(path)
        if (
            set(description) - {_DIGEST} != _FIELDS
            or type(description["format"]) is not int
            or description["format"] != FORMAT
        ):
            raise ModelError(
                f"{path} is not of a format that this version of noisegate reads."
            )
        if (
            description.get(_DIGEST, digest := description_digest(description))
            != digest
        ):
            raise ModelError(
                f"{path} was changed after the model was written: its digest differs."
            )
        files = description["files"]
        if set(files) != set(HASHED) or not isinstance(description["model"], dict):
            raise ModelError(
                f"{path} is not of a format that this version of noisegate reads."
            )
        for name, expected in files.items():
            if (folder / name).is_symlink() or not (folder / name).is_file():
                raise ModelError(
                    f"{folder / name} does not exist, or is a link; {folder} is not a whole model folder."
                )
            if file_hash(folder / name) != expected:
                raise ModelError(
                    f"{folder / name} was changed after the model was written: its hash differs."
                )
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


def file_hash(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
