"""The certificate of a discovered schema: a file beside the schema, which can be checked without the data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from noisegate.errors import ModelError
from noisegate.privacy.certificate import Certificate, read_certificate
from noisegate.privacy.discovery_plan import check_events
from noisegate.schema.partial import gaps_of

_ENDING = ".certificate.json"
SCHEMA_HASH = "schema"
"""Name of the hash of the schema file in its certificate."""
DISCOVERED = "Discovered with "
"""How the first line of a discovered schema begins."""


@dataclass(frozen=True, kw_only=True)
class SchemaVerification:
    """What `verify_schema` found.

    Attributes:
        certificate: The certificate, whose ε was recomputed.
        recomputed_epsilon: ε from the events, at most the ε that is stated.
        schema: The schema file.
        unchanged: Whether it is as it was discovered, to the byte. Correcting it from public knowledge is allowed.
    """

    certificate: Certificate
    recomputed_epsilon: float
    schema: Path
    unchanged: bool


def certificate_path(schema: Path) -> Path:
    """Returns where the certificate of a schema file stands."""
    return schema.parent / f"{schema.name}{_ENDING}"


def certificate_text(certificate: Certificate) -> str:
    """Returns the certificate as the text of its file."""
    return json.dumps(certificate.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def schema_hash(text: bytes) -> str:
    """Returns the SHA-256 of a schema file."""
    return hashlib.sha256(text).hexdigest()


def check_discovery(certificate: Certificate) -> None:
    """Checks that the events of a certificate are those of the discovery of its columns.

    Raises:
        ModelError: if they are not, or it is of something else than a discovery.
    """
    if SCHEMA_HASH not in certificate.hashes:
        raise ModelError(f"the certificate of {certificate.method!r} is not that of a discovered schema.")
    if certificate.contributions is not None:
        raise ModelError("a discovery's certificate states contributions, but none knows whose record each one is.")
    if set(certificate.hashes) != {SCHEMA_HASH}:
        raise ModelError("a discovery's certificate speaks of more than a schema, which no discovery does.")
    try:
        numeric, texts = gaps_of(certificate.public)
    except TypeError as error:
        raise ModelError(f"the kinds of columns in a discovery's certificate are broken: {error}.") from None
    check_events(certificate.events, certificate.adjacency, numeric=numeric, texts=texts)


def verify_schema(path: Path) -> SchemaVerification:
    """Recomputes ε of the certificate in the file `path` and compares the schema beside it.

    Raises:
        ModelError: if there is no such certificate or schema, or the certificate states less than its events cost, or
            other events than the discovery of its columns has.
    """
    certificate = read_certificate(path)
    expected = certificate.hashes.get(SCHEMA_HASH)
    if not path.name.endswith(_ENDING) or expected is None:
        raise ModelError(f"{path} is no certificate of a discovered schema; give a model folder, or SCHEMA{_ENDING}.")
    recomputed = certificate.check()
    check_discovery(certificate)
    schema = path.with_name(path.name.removesuffix(_ENDING))
    try:
        found = schema_hash(schema.read_bytes())
    except OSError as error:
        raise ModelError(f"{schema} cannot be read: {error.strerror}; it belongs beside its certificate.") from None
    return SchemaVerification(
        certificate=certificate, recomputed_epsilon=recomputed, schema=schema, unchanged=found == expected
    )
