"""Signatures of a release's owner: an Ed25519 key over every file of a folder.

The signature lies in the folder, beside what it covers::

    signature.json     an envelope (DSSE, https://github.com/secure-systems-lab/dsse)
      payload          a statement (in-toto, https://in-toto.io/Statement/v1), in base64
        subject        the SHA-256 of every file but the signature
        predicate      ε, δ, unit, method, version, and the certificate's digest
      signatures       one, with the public key as its key identifier

A checker computes the statement of the folder again and compares it with the one that
was signed, so a file that was added, removed or changed is seen. Earlier versions
left the public page out of the statement; their signatures are still accepted.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from noisegate.atomic import check_private, new_file
from noisegate.errors import ModelError, OptionError, require, said
from noisegate.models.folder import PUBLIC_PAGE, SIGNATURE, file_hash, verify
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.release import read_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://github.com/noisegate/noisegate/privacy-certificate/v1"
_CERTIFICATE_FIELDS = ("epsilon", "delta", "unit", "method", "version")
"""The fields of the certificate that the statement repeats."""

# A statement with this field covers every file; one without, as made before, every file
# but the public page.
_COVERAGE = "covers"
_EVERY_FILE = "every file"

# Who may read a private key: its owner alone.
_OWNER_ONLY = 0o600


class _Envelope(NamedTuple):
    """A signature file, read and decoded."""

    payload_type: str | None
    payload: bytes
    signature: bytes


def sign(folder: str | Path, key: str | Path) -> Path:
    """Verifies a model or release folder, then signs it with a private key.

    Needs the extra ``noisegate[silos]``.

    Args:
        folder: The folder of a fit, a release or a merge.
        key: File of an unencrypted Ed25519 private key in PEM format. If the file does
            not exist, a key is generated; its public key is written beside it with the
            suffix ``.pub``.

    Returns:
        The path of the signature, in the folder.

    Raises:
        ModelError: if the folder does not verify; nothing is signed.
        OptionError: if the key is not an Ed25519 private key, or the folder is signed
            already.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, sign, synthesize
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill")])
        >>> patients = pa.table({"ill": [True, False] * 100})
        >>> model = synthesize(patients, schema=schema, epsilon=1.0)
        >>> sign(model.save("model"), "owner.key").name
        'signature.json'
    """
    require("cryptography", "a signature")
    path = Path(folder) / SIGNATURE
    payload = canonical_json(_build_statement(Path(folder), covers_page=True))
    if path.exists():
        raise OptionError(f"{path} exists; remove it to sign the folder again.")
    private_key = _load_or_generate_key(Path(key))
    signature = private_key.sign(_pre_authentication_encoding(payload))
    envelope = {
        "payloadType": _PAYLOAD_TYPE,
        "payload": b64encode(payload).decode(),
        "signatures": [
            {
                "keyid": private_key.public_key().public_bytes_raw().hex(),
                "sig": b64encode(signature).decode(),
            }
        ],
    }
    with new_file(path) as new_path:
        new_path.write_text(json.dumps(envelope, indent=2) + "\n", encoding="utf-8")
    return path


def check_signature(folder: Path, public_key: Path) -> tuple[str, ...]:
    """Checks the signature of a folder.

    Args:
        folder: Folder of a model or a release.
        public_key: File of the owner's public key, in PEM.

    Returns:
        The files that the owner signed, relative to the folder: all but the signature.
        A signature that was made before pages were signed leaves out the public page
        too.

    Raises:
        ModelError: if the signature is of another key, or a file was added, removed or
            changed since it was made.
    """
    require("cryptography", "a signature")
    path = folder / SIGNATURE
    statement = _build_statement(folder, covers_page=True)
    envelope = _read_signed_envelope(path, public_key)
    statement_without_page = _build_statement(folder, covers_page=False)
    if envelope.payload == canonical_json(statement_without_page):
        statement = statement_without_page
    is_of_folder = envelope.payload == canonical_json(statement)
    if envelope.payload_type != _PAYLOAD_TYPE or not is_of_folder:
        raise ModelError(
            f"{folder}: a file was added, removed or changed after {path.name} was made"
            f"{_describe_differences(envelope.payload, statement)}."
        )
    return tuple(file["name"] for file in statement["subject"])


def _read_signed_envelope(path: Path, public_key: Path) -> _Envelope:
    """Reads a signature file, and requires that its signature is of a public key.

    Args:
        path: The signature file.
        public_key: File of the public key, in PEM.

    Raises:
        ModelError: if the signature is of another key or payload, or one of the files
            cannot be read as what it should be.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        fields = read_json(path)
        key = load_pem_public_key(public_key.read_bytes())
        envelope = _Envelope(
            payload_type=fields.get("payloadType"),
            payload=b64decode(fields["payload"], validate=True),
            signature=b64decode(fields["signatures"][0]["sig"], validate=True),
        )
        # A key of another kind has no `verify`, or one with other arguments.
        key.verify(  # type: ignore[union-attr,call-arg]
            envelope.signature, _pre_authentication_encoding(envelope.payload)
        )
    except InvalidSignature:
        raise ModelError(
            f"{path} was changed, or not made with the key of {public_key}: do not "
            "rely on it."
        ) from None
    except (OSError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ModelError(
            f"{path} cannot be checked with {public_key}: {type(error).__name__}: "
            f"{error}."
        ) from None
    return envelope


def _describe_differences(payload: bytes, statement: dict[str, Any]) -> str:
    """Names the files whose digests differ from those that were signed.

    Args:
        payload: The statement that was signed.
        statement: The statement of the folder as it is.

    Returns:
        What follows "was made" in a message; empty where the payload cannot be read.
    """
    try:
        signed_digests = _digests_of(json.loads(payload))
    except (TypeError, ValueError, LookupError):
        return ""
    digests = _digests_of(statement)
    differing_files = sorted(
        name
        for name in signed_digests.keys() | digests.keys()
        if signed_digests.get(name) != digests.get(name)
    )
    if not differing_files:
        return ""
    listed_files = ", ".join(map(repr, differing_files))
    description = f": {listed_files} differs from what was signed"
    if differing_files == [PUBLIC_PAGE]:
        description += (
            "; if the owner made the page again, let them sign the folder again"
        )
    return description


def _digests_of(statement: dict[str, Any]) -> dict[str, Any]:
    """Returns the digest of each file of a statement, by its name."""
    return {file["name"]: file["digest"] for file in statement["subject"]}


def _build_statement(folder: Path, *, covers_page: bool) -> dict[str, Any]:
    """Builds the in-toto statement of a folder, which is verified first.

    Args:
        folder: Folder of a model or a release.
        covers_page: Whether the public page is a subject too; not in signatures of old.

    Returns:
        The statement: digests of the files, and the claim of the certificate.

    Raises:
        OptionError: if the folder is none.
        ModelError: if it does not verify, or has an entry that no signature can cover.
    """
    if not folder.is_dir():
        raise OptionError(
            f"{folder} is not a folder; a signature is of a folder of fit, release or "
            "merge."
        )
    certificate = verify(folder).certificate
    names = _signable_files(folder)
    predicate = {name: getattr(certificate, name) for name in _CERTIFICATE_FIELDS}
    predicate["certificate"] = certificate.digest()
    if covers_page:
        predicate[_COVERAGE] = _EVERY_FILE
    else:
        names = [name for name in names if name != PUBLIC_PAGE]
    return {
        "_type": _STATEMENT_TYPE,
        "subject": [
            {"name": name, "digest": {"sha256": file_hash(folder / name)}}
            for name in names
        ],
        "predicateType": _PREDICATE_TYPE,
        "predicate": predicate,
    }


def _signable_files(folder: Path) -> list[str]:
    """Lists all files of a folder except its signature, sorted, relative to it.

    Raises:
        ModelError: at a link, an empty folder or a special file. No digest shows
            whether one of these was added or changed.
    """
    names = []
    for path in folder.rglob("*"):
        is_link = path.is_symlink()
        if path.is_file() and not is_link:
            names.append(path.relative_to(folder).as_posix())
        elif is_link or not path.is_dir() or not any(path.iterdir()):
            raise ModelError(
                f"{path} is an empty folder, a link or no file, which no signature "
                "covers; remove it."
            )
    return sorted(name for name in names if name != SIGNATURE)


def _load_or_generate_key(path: Path) -> Ed25519PrivateKey:
    """Loads a private key, or generates one where the file does not exist.

    Raises:
        OptionError: if the file holds another kind of key, others may read it, or a new
            one would have the name of its public key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not path.exists():
        return _generate_key(path)
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, TypeError, ValueError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise OptionError(
            f"{said('key', path)} must be an unencrypted Ed25519 private key in PEM, "
            "or a new file."
        )
    check_private(path, "key")
    return key


def _generate_key(path: Path) -> Ed25519PrivateKey:
    """Generates a key pair and writes both keys, the public one with suffix ``.pub``.

    Raises:
        OptionError: if the private key would have the suffix of the public one.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if path.suffix == ".pub":
        raise OptionError(
            f"{said('key', path)}: the public key gets this name; choose another, such "
            "as owner.key."
        )
    private_key = Ed25519PrivateKey.generate()
    private_pem = private_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public_pem = private_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    with new_file(path) as key_file, new_file(path.with_suffix(".pub")) as public_file:
        # Before anything is written, so that nobody reads it in between.
        key_file.chmod(_OWNER_ONLY)
        key_file.write_bytes(private_pem)
        public_file.write_bytes(public_pem)
    return private_key


def _pre_authentication_encoding(payload: bytes) -> bytes:
    """Encodes a payload with its type and lengths, which is what a key signs.

    It is PAE of DSSE (https://github.com/secure-systems-lab/dsse, protocol.md), which
    keeps a signature from being taken for one of another type:
    ``DSSEv1 28 application/vnd.in-toto+json 2 {}`` for the payload ``{}``.
    """
    return b"DSSEv1 %d %s %d %s" % (
        len(_PAYLOAD_TYPE),
        _PAYLOAD_TYPE.encode(),
        len(payload),
        payload,
    )
