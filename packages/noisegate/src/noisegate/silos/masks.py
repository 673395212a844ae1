"""Masks that cancel: of two silos one adds what the other one subtracts, modulo 2⁶⁴, and nobody else knows it (G-32).

Every pair of silos agrees on a secret by X25519 (RFC 7748); HKDF with SHA-256 (RFC 5869) makes of it one key for each
query of each sum, and ChaCha20 (RFC 8439) the mask. Bonawitz et al. (CCS 2017),
https://doi.org/10.1145/3133956.3133982, section 4.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.atomic import sync_folders
from noisegate.errors import OptionError, require
from noisegate.privacy.accounting import MOST_SHARES
from noisegate.privacy.certificate import canonical_json

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """What the shares of one sum have in common."""

    keys: Mapping[str, str]  # the public key of each silo, X25519 in hexadecimal digits, by its name
    colluding: int  # how many of the silos may tell what they know to whoever adds up; the others' noise suffices
    plan: str  # identifier of the published plan
    events: tuple[Mapping[str, Any], ...]  # what is asked and with what noise, as JSON
    after: str | None = None  # digest of the merged release of the round before; None in the first round

    def __post_init__(self) -> None:
        count = len(self.keys)
        if not 2 <= count <= MOST_SHARES:
            raise OptionError(f"secure sum: keys of {count} silos; give those of 2 to {MOST_SHARES}.")
        if type(self.colluding) is not int or not 0 <= self.colluding < count:
            raise OptionError(
                f"colluding={self.colluding!r} must be a whole number from 0 to {count - 1}, below the number of silos."
            )
        if len(set(self.keys.values())) < count:
            raise OptionError(f"secure sum: two of the silos {', '.join(self.keys)} have the same key.")

    @property
    def honest(self) -> int:
        """How many shares of the noise must suffice."""
        return len(self.keys) - self.colluding

    @property
    def identity(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(canonical_json({**vars(self), "keys": dict(self.keys)})).hexdigest()


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
            self.used.mkdir(parents=True, exist_ok=True)
            with (self.used / self.sum.identity).open("x") as mark:
                os.fsync(mark.fileno())
        except FileExistsError:
            raise OptionError(
                f"silo {self.silo!r} has answered this sum before, or was stopped in it: {self.used} says so. A second "
                "answer under the same masks would show the difference of both. All silos make new keys and begin anew."
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
        key = HKDF(algorithm=SHA256(), length=32, salt=bytes.fromhex(self.sum.identity), info=info).derive(
            self.private_key.exchange(theirs)
        )
        stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        return np.frombuffer(stream.update(bytes(8 * size)), dtype="<u8").astype(np.uint64)


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


def public_key(private: Any) -> str:
    """Returns the public key of a private one, in hexadecimal digits."""
    return str(private.public_key().public_bytes_raw().hex())


def as_numbers(words: Words) -> npt.NDArray[np.float64]:
    """Returns words, (dim, columns), as a release holds them: high halves above low ones, (2·dim, columns)."""
    halves = (words >> np.uint64(32), words & np.uint64(2**32 - 1))
    return np.concatenate(halves).astype(np.float64)


def as_words(numbers: npt.NDArray[np.float64]) -> Words:
    """Returns the words that `as_numbers` wrote; a ValueError if they are none."""
    if len(numbers) % 2 or not ((numbers >= 0) & (numbers < 2.0**32) & (numbers == np.floor(numbers))).all():
        raise ValueError("no halves of words")
    high, low = np.split(numbers.astype(np.uint64), 2)
    return (high << np.uint64(32)) | low
