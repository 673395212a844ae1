"""Keys of silos for sums under masks: a private one that stays, and a public one that all the others get.

    north.key         private: whoever has it can take north's masks off
    north.pub         public: name and key
    north.key.used/   the sums in which the key was used; each is used once

Masks cancel: of two silos one adds what the other one subtracts, modulo 2⁶⁴, and nobody
else knows it (G-32).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.atomic import (
    check_private,
    close_to_others,
    new_file,
    second_name,
    sync_folders,
)
from noisegate.errors import ModelError, OptionError, require
from noisegate.privacy.accounting import MOST_SHARES
from noisegate.privacy.certificate import canonical_json
from noisegate.privacy.events import event_to_json
from noisegate.privacy.plan import CalibratedPlan
from noisegate.privacy.release import Release, read_json

FORMAT = 1
PUBLIC = ".pub"


@dataclass(frozen=True, kw_only=True)
class SiloKey:
    """The key of one silo, the public keys of all of them, and how many of these may collude."""

    silo: str
    path: Path
    keys: Mapping[str, str]
    colluding: int
    private_key: Any = field(repr=False)

    def masking(self, part: CalibratedPlan, *, plan: str, after: str | None) -> Masking:
        """Returns the masks of one round: of some queries of a plan, with noise in shares."""
        events = tuple(event_to_json(event) for event in part.events)
        shared = SecureSum(
            keys=self.keys,
            colluding=self.colluding,
            plan=plan,
            events=events,
            after=after,
        )
        used = self.path.with_name(self.path.name + ".used")
        return Masking(
            sum=shared, silo=self.silo, private_key=self.private_key, used=used
        )


def write_key(silo: str, out: Path) -> Path:
    """Writes a new private key, for its owner's eyes alone, and the public one beside it, whose path is returned."""
    if not silo.strip() or not silo.isprintable():
        raise OptionError(
            f"silo={silo!r} must be the name of this silo in one line, such as 'north'."
        )
    beside = out.with_suffix(PUBLIC)
    if beside == out:
        raise OptionError(
            f"--out {out}: the public key gets this name; choose another, such as {silo}.key."
        )
    private, public = new_key()
    for path, content in ((out, {"private": private}), (beside, {"public": public})):
        with new_file(path) as new:
            new.chmod(0o600)
            new.write_text(
                json.dumps({"format": FORMAT, "silo": silo.strip(), **content}) + "\n",
                encoding="utf-8",
            )
    beside.chmod(0o644)
    return beside


def silo_key(
    folder: str | Path | None, key: str | Path | None, colluding: int
) -> SiloKey | None:
    """Returns what a secure sum takes: a folder of public keys and a private one; None without them."""
    if folder is None and key is None:
        return None
    if folder is None or key is None:
        says = f"secure_sum={folder!r} and key={key!r} go together"
        raise OptionError(
            f"{says}: the folder with the public key of every silo, and the private key of this one."
        )
    keys, path = read_keys(Path(folder)), Path(key)
    silo, digits = _read(path, "private")
    check_private(path, "key")
    if (why := second_name(path)) is not None:
        raise OptionError(
            f"key={str(path)!r} {why}. The sums in which it was used are remembered beside its name, and under another "
            "name it would be used twice."
        )
    try:
        private = private_key(digits)
    except ValueError:
        raise ModelError(
            f"{path} holds no private key of X25519; make one with `noisegate key`."
        ) from None
    if keys.get(silo) != private.public_key().public_bytes_raw().hex():
        raise OptionError(
            f"key={str(path)!r}: {folder} holds no public key of {silo!r} that belongs to it."
        )
    return SiloKey(
        silo=silo, path=path, keys=keys, colluding=colluding, private_key=private
    )


def read_keys(folder: Path) -> dict[str, str]:
    """Returns the public keys in a folder, by the names of the silos, sorted."""
    keys: dict[str, str] = {}
    for path in sorted(folder.glob("*" + PUBLIC)):
        silo, digits = _read(path, "public")
        if silo in keys:
            raise OptionError(
                f"{folder} holds two public keys of the silo {silo!r}; keep the one that it uses."
            )
        keys[silo] = digits
    if len(keys) < 2:
        raise OptionError(
            f"secure_sum={str(folder)!r} holds {len(keys)} public keys (*{PUBLIC}); it needs all silos'."
        )
    return dict(sorted(keys.items()))


def _read(path: Path, kind: str) -> tuple[str, str]:
    try:
        content = read_json(path)
        silo, digits = content["silo"], content[kind]
        if (
            content["format"] != FORMAT
            or not isinstance(silo, str)
            or len(bytes.fromhex(digits)) != 32
        ):
            raise ValueError("another format")
    except FileNotFoundError:
        raise ModelError(
            f"{path} does not exist; `noisegate key` makes keys."
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ModelError(
            f"{path} holds no {kind} key; `noisegate key` makes keys."
        ) from None
    return silo, digits


def facts_of(shared: SecureSum) -> dict[str, Any]:
    """Returns what the certificate of a share says of the sum."""
    return {
        "keys": dict(shared.keys),
        "colluding": shared.colluding,
        "sum": shared.identity,
    }


def sum_of(release: Release) -> SecureSum | None:
    """Returns the secure sum that a release is a share of, as its certificate states and makes it; None if none."""
    certificate = release.certificate
    facts = certificate.public.get("secure_sum")
    if facts is None:
        return None
    try:
        shared = SecureSum(
            keys=dict(facts["keys"]),
            colluding=facts["colluding"],
            plan=certificate.public["plan"],
            events=tuple(event_to_json(event) for event in certificate.events),
            after=certificate.public.get("after"),
        )
        found = facts_of(shared)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"a share's certificate states no secure sum: {type(error).__name__} at {error}."
        ) from None
    if found != facts:
        raise ModelError(
            f"silo {certificate.public.get('silo')!r} states the sum {str(facts['sum'])[:16]}, and its certificate "
            f"makes {shared.identity[:16]}: do not rely on it."
        )
    return shared


def check_shares(releases: Sequence[Release]) -> SecureSum | None:
    """Returns the secure sum that releases are all shares of; None if none of them is; refuses shares of several."""
    shared = [sum_of(release) for release in releases]
    first = shared[0]
    names = [str(release.certificate.public.get("silo")) for release in releases]
    for name, one in zip(names, shared, strict=True):
        if (one is None) is not (first is None):
            raise OptionError(
                f"silos {names[0]!r} and {name!r}: one is a share of a secure sum, and the other is not."
            )
        if first is not None and one is not None and one.identity != first.identity:
            differ = [
                part
                for part in vars(first)
                if getattr(one, part) != getattr(first, part)
            ]
            raise OptionError(
                f"silos {names[0]!r} and {name!r} are shares of different sums ({', '.join(differ)} differ): masks "
                "would not cancel. All silos answer under one plan, one ε, one folder of keys and one --colluding."
            )
    if first is not None and (missing := sorted(set(first.keys) - set(names))):
        says = f"the share of {', '.join(missing)} is missing: without it the masks of the others do not cancel"
        raise OptionError(
            f"{says}. Wait for it; or begin anew without that silo, with new keys, which costs ε again."
        )
    return first


def unmasked(releases: Sequence[Release], name: str) -> npt.NDArray[np.int64]:
    """Returns the sum over all silos of the answers to a query, with noise, in grid units, (dim, columns)."""
    try:
        total = np.sum(
            [as_words(release.values[name]) for release in releases],
            axis=0,
            dtype=np.uint64,
        )
    except ValueError:
        raise ModelError(f"query {name!r}: a share holds no halves of words.") from None
    return np.asarray(total).view(np.int64)


Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """What the shares of one sum have in common."""

    keys: Mapping[
        str, str
    ]  # the public key of each silo, X25519 in hexadecimal digits, by its name
    colluding: int  # how many of the silos may tell what they know to whoever adds up; the others' noise suffices
    plan: str  # identifier of the published plan
    events: tuple[Mapping[str, Any], ...]  # what is asked and with what noise, as JSON
    after: str | None = (
        None  # digest of the merged release of the round before; None in the first round
    )

    def __post_init__(self) -> None:
        count = len(self.keys)
        if not 2 <= count <= MOST_SHARES:
            raise OptionError(
                f"secure sum: keys of {count} silos; give those of 2 to {MOST_SHARES}."
            )
        if type(self.colluding) is not int or not 0 <= self.colluding < count:
            raise OptionError(
                f"colluding={self.colluding!r} must be a whole number from 0 to {count - 1}, below the number of silos."
            )
        if len(set(self.keys.values())) < count:
            raise OptionError(
                f"secure sum: two of the silos {', '.join(self.keys)} have the same key."
            )

    @property
    def honest(self) -> int:
        """How many shares of the noise must suffice."""
        return len(self.keys) - self.colluding

    @property
    def identity(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(
            canonical_json({**vars(self), "keys": dict(self.keys)})
        ).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Masking:
    """The masks of one silo in one sum; each is to be used once."""

    sum: SecureSum  # what is summed
    silo: str  # name of this silo
    private_key: Any = field(repr=False)
    used: Path  # folder that remembers the sums in which this key was used

    def begin(self) -> None:
        """Marks the masks as used, for good, or refuses: two answers under them would show their difference."""
        try:
            self.used.mkdir(mode=0o700, parents=True, exist_ok=True)
            close_to_others(
                self.used
            )  # who may remove a mark may have the key used twice
            with (self.used / self.sum.identity).open("x") as mark:
                os.fsync(mark.fileno())
        except FileExistsError:
            raise OptionError(
                f"silo {self.silo!r} has answered this sum before, or was stopped in it: {self.used} says so. A second "
                "answer under the same masks would show the difference of both. All silos make new keys and begin anew."
            ) from None
        except PermissionError as error:
            raise OptionError(
                f"{self.used} cannot be written: {error.strerror}. It remembers the sums in which the key was used; "
                "move the key to a folder of your own."
            ) from None
        # The name too outlives a power cut, before anything leaves: it stands in the folder, and this one in its own.
        sync_folders(self.used, self.used.parent)

    def mask(self, query: str, size: int) -> Words:
        """Returns the sum of this silo's masks for a query, (size,): over all silos they are zero modulo 2⁶⁴."""
        total = np.zeros(size, dtype=np.uint64)
        for other in self.sum.keys:
            if other != self.silo:
                stream = self._stream(other, query, size)
                total = total + stream if self.silo < other else total - stream
        return total

    def _stream(self, other: str, query: str, size: int) -> Words:
        """Returns what this silo and another one alone can know, the same for both."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        theirs = X25519PublicKey.from_public_bytes(bytes.fromhex(self.sum.keys[other]))
        info = canonical_json({"mask": query, "of": sorted((self.silo, other))})
        key = HKDF(
            algorithm=SHA256(),
            length=32,
            salt=bytes.fromhex(self.sum.identity),
            info=info,
        ).derive(self.private_key.exchange(theirs))
        stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        return np.frombuffer(stream.update(bytes(8 * size)), dtype="<u8").astype(
            np.uint64
        )


def new_key() -> tuple[str, str]:
    """Returns a private and a public key of X25519, in hexadecimal digits."""
    require("cryptography", "a secure sum")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.generate()
    return key.private_bytes_raw().hex(), key.public_key().public_bytes_raw().hex()


def private_key(digits: str) -> Any:
    """Returns the private key that `new_key` gave; a ValueError if it is none."""
    require("cryptography", "a secure sum")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(bytes.fromhex(digits))


def as_numbers(words: Words) -> npt.NDArray[np.float64]:
    """Returns words, (dim, columns), as a release holds them: high halves above low ones, (2·dim, columns)."""
    halves = (words >> np.uint64(32), words & np.uint64(2**32 - 1))
    return np.concatenate(halves).astype(np.float64)


def as_words(numbers: npt.NDArray[np.float64]) -> Words:
    """Returns the words that `as_numbers` wrote; a ValueError if they are none."""
    if (
        len(numbers) % 2
        or not (
            (numbers >= 0) & (numbers < 2.0**32) & (numbers == np.floor(numbers))
        ).all()
    ):
        raise ValueError("no halves of words")
    high, low = np.split(numbers.astype(np.uint64), 2)
    return (high << np.uint64(32)) | low
