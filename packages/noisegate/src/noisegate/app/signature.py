"""A signature of the owner on all files of a folder: an in-toto statement in a DSSE envelope, by an Ed25519 key."""

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from noisegate.atomic import check_private, new_file
from noisegate.errors import ModelError, OptionError, require, said
from noisegate.models.folder import PUBLIC_PAGE, SIGNATURE, file_hash, verify
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.release import read_json

_PAYLOAD, _STATEMENT = "application/vnd.in-toto+json", "https://in-toto.io/Statement/v1"
_PREDICATE = "https://github.com/noisegate/noisegate/privacy-certificate/v1"
_STATED = ("epsilon", "delta", "unit", "method", "version")
# Signatures that state it cover every file. Those made before left the public page out.
_COVERS, _EVERY_FILE = "covers", "every file"


def sign(folder: str | Path, key: str | Path) -> Path:
    """Signs a verified model or release folder with a private key, made where there is none; returns the signature.

    The public key is written beside a new private one, with the suffix ``.pub``. Needs ``noisegate[silos]``.

    Raises:
        ModelError: if the folder does not verify; nothing is signed.
        OptionError: if the key is not an Ed25519 private key, or the folder is signed already.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, sign, synthesize
        >>> from noisegate.schema import Boolean
        >>> made = synthesize(pa.table({"ill": [True, False] * 100}), schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> sign(made.save("model"), "owner.key").name
        'signature.json'
    """
    require("cryptography", "a signature")
    path, statement = (
        Path(folder) / SIGNATURE,
        canonical_json(_statement(Path(folder), with_page=True)),
    )
    if path.exists():
        raise OptionError(f"{path} exists; remove it to sign the folder again.")
    private = _private(Path(key))
    keyid = private.public_key().public_bytes_raw().hex()
    signature = {
        "keyid": keyid,
        "sig": b64encode(private.sign(_encoded(statement))).decode(),
    }
    with new_file(path) as new:
        envelope = {
            "payloadType": _PAYLOAD,
            "payload": b64encode(statement).decode(),
            "signatures": [signature],
        }
        new.write_text(json.dumps(envelope, indent=2) + "\n", encoding="utf-8")
    return path


def check_signature(folder: Path, public: Path) -> tuple[str, ...]:
    """Checks the signature of a folder.

    Args:
        folder: Of a model or a release.
        public: Public key of the owner.

    Returns:
        The files that the owner signed: all but the signature, and of signatures made before pages were signed all but
        the public page.

    Raises:
        ModelError: if a file was added, removed or changed since, or the key is another one.
    """
    require("cryptography", "a signature")
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    path = folder / SIGNATURE
    stated = _statement(folder, with_page=True)
    try:
        envelope, key = read_json(path), load_pem_public_key(public.read_bytes())
        payload = b64decode(envelope["payload"], validate=True)
        signature = b64decode(envelope["signatures"][0]["sig"], validate=True)
        key.verify(signature, _encoded(payload))  # type: ignore[union-attr,call-arg]
    except InvalidSignature:
        raise ModelError(
            f"{path} was changed, or not made with the key of {public}: do not rely on it."
        ) from None
    except (OSError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ModelError(
            f"{path} cannot be checked with {public}: {type(error).__name__}: {error}."
        ) from None
    if payload == canonical_json(_statement(folder, with_page=False)):
        stated = _statement(folder, with_page=False)
    if envelope.get("payloadType") != _PAYLOAD or payload != canonical_json(stated):
        raise ModelError(
            f"{folder}: a file was added, removed or changed after {path.name} was made{_differences(payload, stated)}."
        )
    return tuple(one["name"] for one in stated["subject"])


def _differences(payload: bytes, stated: dict[str, Any]) -> str:
    """Returns which files differ from what was signed, in words; nothing where that cannot be read."""
    try:
        signed = {one["name"]: one["digest"] for one in json.loads(payload)["subject"]}
    except (TypeError, ValueError, LookupError):
        return ""
    now = {one["name"]: one["digest"] for one in stated["subject"]}
    differing = sorted(
        name for name in signed.keys() | now.keys() if signed.get(name) != now.get(name)
    )
    if not differing:
        return ""
    remade = ""
    if differing == [PUBLIC_PAGE]:
        remade = "; if the owner made the page again, let them sign the folder again"
    return f": {', '.join(map(repr, differing))} differs from what was signed{remade}"


def _statement(folder: Path, *, with_page: bool) -> dict[str, Any]:
    """Returns what is signed: digests of all files, and the claim; without the public page as signed before."""
    if not folder.is_dir():
        raise OptionError(
            f"{folder} is not a folder; a signature is of a folder of fit, release or merge."
        )
    certificate, files = verify(folder).certificate, []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            files.append(path)
        elif path.is_symlink() or not path.is_dir() or not any(path.iterdir()):
            raise ModelError(
                f"{path} is an empty folder, a link or no file, which no signature covers; remove it."
            )
    names = sorted(
        {path.relative_to(folder).as_posix() for path in files} - {SIGNATURE}
    )
    facts = {name: getattr(certificate, name) for name in _STATED} | {
        "certificate": certificate.digest()
    }
    if with_page:
        facts[_COVERS] = _EVERY_FILE
    else:
        names = [name for name in names if name != PUBLIC_PAGE]
    subject = [
        {"name": name, "digest": {"sha256": file_hash(folder / name)}} for name in names
    ]
    return {
        "_type": _STATEMENT,
        "subject": subject,
        "predicateType": _PREDICATE,
        "predicate": facts,
    }


def _private(path: Path) -> Any:
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not path.exists():
        if path.suffix == ".pub":
            raise OptionError(
                f"{said('key', path)}: the public key gets this name; choose another, such as owner.key."
            )
        made, pem = Ed25519PrivateKey.generate(), forms.Encoding.PEM
        with new_file(path) as new, new_file(path.with_suffix(".pub")) as public:
            new.chmod(0o600)
            new.write_bytes(
                made.private_bytes(pem, forms.PrivateFormat.PKCS8, forms.NoEncryption())
            )
            public.write_bytes(
                made.public_key().public_bytes(
                    pem, forms.PublicFormat.SubjectPublicKeyInfo
                )
            )
        return made
    try:
        key = forms.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, TypeError, ValueError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise OptionError(
            f"{said('key', path)} must be an unencrypted Ed25519 private key in PEM, or a new file."
        )
    check_private(path, "key")
    return key


def _encoded(statement: bytes) -> bytes:
    """Returns the pre-authentication encoding of DSSE (https://github.com/secure-systems-lab/dsse, protocol.md)."""
    return b"DSSEv1 %d %s %d %s" % (
        len(_PAYLOAD),
        _PAYLOAD.encode(),
        len(statement),
        statement,
    )
