"""Keys of silos, and the masks that cancel in the sum of their answers (G-32).

Every silo has two files of a key, and a folder beside them::

    north.key         private: whoever has it can take north's masks off
    north.pub         public: name and key
    north.key.used/   the sums in which the key was used; each is used once

Any two silos derive a stream of words that nobody else knows, from the private key of
one and the public key of the other. One adds it to its answers, the other subtracts it,
modulo 2⁶⁴::

    north   sum + noise + stream(north, south) + stream(north, west)
    south   sum + noise − stream(north, south) + stream(south, west)
    west    sum + noise − stream(north, west)  − stream(south, west)
    ────────────────────────────────────────────────────────────────
    total   sums + noises

How to read it: `write_key` and `read_silo_key` are for one silo, `check_shares` and
`sum_shares` for whoever adds up; `SecureSum` is what all shares of a sum have in
common, and `Masking` makes the masks.
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
"""Version of the files of keys."""
PUBLIC_SUFFIX = ".pub"
"""How the names of public keys end."""
# Bytes of a key of X25519.
_KEY_SIZE = 32
# 2³², the base of the two digits in which a release holds a word of 64 bits.
_HALF_WORD = 2**32


@dataclass(frozen=True, kw_only=True)
class SiloKey:
    """What one silo needs for secure sums.

    Attributes:
        silo: Name of the silo.
        path: File of its private key.
        keys: Public keys of all silos, in hexadecimal, by the names of the silos.
        colluding: How many of the silos may tell others what they know.
        private_key: Its private key, an `X25519PrivateKey`.
    """

    silo: str
    path: Path
    keys: Mapping[str, str]
    colluding: int
    private_key: Any = field(repr=False)

    def masking_of_round(
        self, round_plan: CalibratedPlan, *, plan: str, after: str | None
    ) -> Masking:
        """Returns the masks of one round, none of them used yet.

        Args:
            round_plan: The queries of the round, with their noise.
            plan: Identifier of the published plan.
            after: Digest of the merged release of the round before; None in the first.
        """
        secure_sum = SecureSum(
            keys=self.keys,
            colluding=self.colluding,
            plan=plan,
            events=tuple(event_to_json(event) for event in round_plan.events),
            after=after,
        )
        return Masking(
            sum=secure_sum,
            silo=self.silo,
            private_key=self.private_key,
            used_folder=self.path.with_name(self.path.name + ".used"),
        )


def write_key(silo: str, out: Path) -> Path:
    """Writes the key of a silo: a private one for its owner alone, and a public one.

    Args:
        silo: Name of the silo, one line.
        out: File of the private key; the public one gets the same name with `.pub`.

    Returns:
        File of the public key.

    Raises:
        OptionError: if the name or the file cannot be used.
    """
    if not silo.strip() or not silo.isprintable():
        raise OptionError(
            f"silo={silo!r} must be the name of this silo in one line, such as 'north'."
        )
    public_path = out.with_suffix(PUBLIC_SUFFIX)
    if public_path == out:
        raise OptionError(
            f"--out {out}: the public key gets this name; choose another, such as "
            f"{silo}.key."
        )
    private_digits, public_digits = generate_key_pair()
    # The private one first: a public key that others use belongs to a stored one.
    _write_key_file(out, silo, "private", private_digits)
    _write_key_file(public_path, silo, "public", public_digits)
    public_path.chmod(0o644)
    return public_path


def _write_key_file(path: Path, silo: str, kind: str, digits: str) -> None:
    """Writes the file of a key, which its owner alone may read.

    Args:
        path: The file, which must not exist.
        silo: Name of the silo.
        kind: "private" or "public".
        digits: The key in hexadecimal.
    """
    with new_file(path) as new_path:
        new_path.chmod(0o600)
        content = {"format": FORMAT, "silo": silo.strip(), kind: digits}
        new_path.write_text(json.dumps(content) + "\n", encoding="utf-8")


def read_silo_key(
    folder: str | Path | None, key: str | Path | None, colluding: int
) -> SiloKey | None:
    """Reads what a silo needs for secure sums.

    Args:
        folder: Folder with the public key of every silo; None for no secure sum.
        key: File of the private key of this silo; None likewise.
        colluding: How many of the silos may tell what they know.

    Returns:
        The keys; None if neither is given.

    Raises:
        OptionError: if only one of the two is given, or they do not belong together, or
            the file has a second name.
        ModelError: if a file holds no key.
    """
    if folder is None and key is None:
        return None
    if folder is None or key is None:
        raise OptionError(
            f"secure_sum={folder!r} and key={key!r} go together: the folder with the "
            "public key of every silo, and the private key of this one."
        )
    public_keys = read_public_keys(Path(folder))
    path = Path(key)
    silo, digits = _read_key_file(path, "private")
    check_private(path, "key")
    problem = second_name(path)
    if problem is not None:
        raise OptionError(
            f"key={str(path)!r} {problem}. The sums in which it was used are "
            "remembered beside its name, and under another name it would be used twice."
        )
    try:
        own_private_key = private_key_from_digits(digits)
    except ValueError:
        raise ModelError(
            f"{path} holds no private key of X25519; make one with `noisegate key`."
        ) from None
    own_public_digits = own_private_key.public_key().public_bytes_raw().hex()
    if public_keys.get(silo) != own_public_digits:
        raise OptionError(
            f"key={str(path)!r}: {folder} holds no public key of {silo!r} that belongs "
            "to it."
        )
    return SiloKey(
        silo=silo,
        path=path,
        keys=public_keys,
        colluding=colluding,
        private_key=own_private_key,
    )


def read_public_keys(folder: Path) -> dict[str, str]:
    """Reads the public keys in a folder.

    Args:
        folder: The folder; other files in it are passed over.

    Returns:
        Keys in hexadecimal, by the names of the silos, sorted.

    Raises:
        OptionError: if a silo has two keys, or there are fewer than two silos.
        ModelError: if a file holds no key.
    """
    keys: dict[str, str] = {}
    for path in sorted(folder.glob("*" + PUBLIC_SUFFIX)):
        silo, digits = _read_key_file(path, "public")
        if silo in keys:
            raise OptionError(
                f"{folder} holds two public keys of the silo {silo!r}; keep the one "
                "that it uses."
            )
        keys[silo] = digits
    if len(keys) < 2:
        raise OptionError(
            f"secure_sum={str(folder)!r} holds {len(keys)} public keys "
            f"(*{PUBLIC_SUFFIX}); it needs all silos'."
        )
    return dict(sorted(keys.items()))


def _read_key_file(path: Path, kind: str) -> tuple[str, str]:
    """Reads the file of a key.

    Args:
        path: The file.
        kind: "private" or "public".

    Returns:
        Name of the silo, and the key in hexadecimal.

    Raises:
        ModelError: if the file does not exist, or holds no such key.
    """
    try:
        content = read_json(path)
        silo = content["silo"]
        digits = content[kind]
        is_key = (
            content["format"] == FORMAT
            and isinstance(silo, str)
            and len(bytes.fromhex(digits)) == _KEY_SIZE
        )
        if not is_key:
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


def secure_sum_to_json(secure_sum: SecureSum) -> dict[str, Any]:
    """Returns what the certificate of a share says of the sum, as JSON has it."""
    return {
        "keys": dict(secure_sum.keys),
        "colluding": secure_sum.colluding,
        "sum": secure_sum.identity,
    }


def secure_sum_of(release: Release) -> SecureSum | None:
    """Returns the secure sum that a release is a share of; None if it is no share.

    Args:
        release: The release.

    Raises:
        ModelError: if its certificate states another sum than follows from it.
    """
    certificate = release.certificate
    stated_facts = certificate.public.get("secure_sum")
    if stated_facts is None:
        return None
    try:
        secure_sum = SecureSum(
            keys=dict(stated_facts["keys"]),
            colluding=stated_facts["colluding"],
            plan=certificate.public["plan"],
            events=tuple(event_to_json(event) for event in certificate.events),
            after=certificate.public.get("after"),
        )
        computed_facts = secure_sum_to_json(secure_sum)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            "a share's certificate states no secure sum: "
            f"{type(error).__name__} at {error}."
        ) from None
    if computed_facts != stated_facts:
        raise ModelError(
            f"silo {certificate.public.get('silo')!r} states the sum "
            f"{str(stated_facts['sum'])[:16]}, and its certificate makes "
            f"{secure_sum.identity[:16]}: do not rely on it."
        )
    return secure_sum


def check_shares(releases: Sequence[Release]) -> SecureSum | None:
    """Checks that releases are all the shares of one secure sum, or none is a share.

    Args:
        releases: Releases of the silos, at least one.

    Returns:
        The secure sum; None if none is a share.

    Raises:
        OptionError: if they are shares of several sums, or one is missing.
        ModelError: if a certificate contradicts itself.
    """
    secure_sums = [secure_sum_of(release) for release in releases]
    names = [str(release.certificate.public.get("silo")) for release in releases]
    first_sum = secure_sums[0]
    for name, secure_sum in zip(names, secure_sums, strict=True):
        if (secure_sum is None) is not (first_sum is None):
            raise OptionError(
                f"silos {names[0]!r} and {name!r}: one is a share of a secure sum, and "
                "the other is not."
            )
        if first_sum is None or secure_sum is None:
            continue
        if secure_sum.identity != first_sum.identity:
            differing_parts = [
                part
                for part in vars(first_sum)
                if getattr(secure_sum, part) != getattr(first_sum, part)
            ]
            raise OptionError(
                f"silos {names[0]!r} and {name!r} are shares of different sums "
                f"({', '.join(differing_parts)} differ): masks would not cancel. All "
                "silos answer under one plan, one ε, one folder of keys and one "
                "--colluding."
            )
    if first_sum is not None:
        missing_silos = sorted(set(first_sum.keys) - set(names))
        if missing_silos:
            raise OptionError(
                f"the share of {', '.join(missing_silos)} is missing: without it the masks "
                "of the others do not cancel. Wait for it; or begin anew without that "
                "silo, with new keys, which costs ε again."
            )
    return first_sum


def sum_shares(releases: Sequence[Release], query: str) -> npt.NDArray[np.int64]:
    """Adds up the shares of all silos, in which the masks cancel.

    Args:
        releases: The shares of all silos.
        query: Name of a query.

    Returns:
        The noisy sum over all silos in grid units, (dim, columns).

    Raises:
        ModelError: if a release is no share.
    """
    try:
        total = np.sum(
            [words_from_halves(release.values[query]) for release in releases],
            axis=0,
            dtype=np.uint64,
        )
    except ValueError:
        raise ModelError(
            f"query {query!r}: a share holds no halves of words."
        ) from None
    # Words from 2⁶³ on stand for negative sums, which wrapped around in the shares.
    return np.asarray(total).view(np.int64)


Words = npt.NDArray[np.uint64]
"""Numbers modulo 2⁶⁴."""


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """What the shares of one sum have in common.

    Raises:
        OptionError: if there are too few or too many silos, all of them may collude, or
            two have the same key.
    """

    keys: Mapping[str, str]
    """Public key of each silo, X25519 in hexadecimal, by its name."""
    colluding: int
    """How many of the silos may tell what they know to whoever adds up: the noise of
    the others suffices."""
    plan: str
    """Identifier of the published plan."""
    events: tuple[Mapping[str, Any], ...]
    """What is asked and with what noise, as JSON has it."""
    after: str | None = None
    """Digest of the merged release of the round before; None in the first round."""

    def __post_init__(self) -> None:
        silo_count = len(self.keys)
        if not 2 <= silo_count <= MOST_SHARES:
            raise OptionError(
                f"secure sum: keys of {silo_count} silos; give those of 2 to "
                f"{MOST_SHARES}."
            )
        if type(self.colluding) is not int or not 0 <= self.colluding < silo_count:
            raise OptionError(
                f"colluding={self.colluding!r} must be a whole number from 0 to "
                f"{silo_count - 1}, below the number of silos."
            )
        if len(set(self.keys.values())) < silo_count:
            raise OptionError(
                f"secure sum: two of the silos {', '.join(self.keys)} have the same "
                "key."
            )

    @property
    def honest_count(self) -> int:
        """How many shares of the noise must suffice: those of silos not colluding."""
        return len(self.keys) - self.colluding

    @property
    def identity(self) -> str:
        """SHA-256 of all fields, in hexadecimal: another sum has another identity."""
        return hashlib.sha256(
            canonical_json({**vars(self), "keys": dict(self.keys)})
        ).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Masking:
    """The masks of one silo in one sum; each is used once."""

    sum: SecureSum
    """What is summed."""
    silo: str
    """Name of this silo."""
    private_key: Any = field(repr=False)
    """Private key of this silo, of X25519."""
    used_folder: Path
    """Folder that remembers the sums in which this key was used."""

    def mark_used(self) -> None:
        """Marks the masks as used, for good, before anything leaves under them.

        Two answers under the same masks would show their difference. So a second call
        is refused, in any process, also where the first one was killed after it.

        Raises:
            OptionError: if they were used, or the mark cannot be made.
        """
        try:
            self.used_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Whoever can remove a mark can have the key used twice.
            close_to_others(self.used_folder)
            # The mark is an empty file with the name of the sum.
            with (self.used_folder / self.sum.identity).open("x") as mark:
                os.fsync(mark.fileno())
        except FileExistsError:
            raise OptionError(
                f"silo {self.silo!r} has answered this sum before, or was stopped in "
                f"it: {self.used_folder} says so. A second answer under the same masks "
                "would show the difference of both. All silos make new keys and begin "
                "anew."
            ) from None
        except PermissionError as error:
            raise OptionError(
                f"{self.used_folder} cannot be written: {error.strerror}. It remembers "
                "the sums in which the key was used; move the key to a folder of your "
                "own."
            ) from None
        # The entries of the mark in its folder, and of the folder in its own, are on
        # disk too before anything leaves: they outlive a power cut.
        sync_folders(self.used_folder, self.used_folder.parent)

    def mask(self, query: str, size: int) -> Words:
        """Returns the mask of this silo's answer to a query.

        Args:
            query: Name of the query.
            size: How many words the answer has.

        Returns:
            Words, (size,). Over all silos they add up to zero modulo 2⁶⁴.
        """
        total = np.zeros(size, dtype=np.uint64)
        for other in self.sum.keys:
            if other == self.silo:
                continue
            stream = self._stream(other, query, size)
            # The first by name adds the stream that the other subtracts.
            if self.silo < other:
                total = total + stream
            else:
                total = total - stream
        return total

    def _stream(self, other: str, query: str, size: int) -> Words:
        """Returns words that this silo and another one can compute, and nobody else.

        Both get the same: a key agreed on by X25519, derived by HKDF for the sum, the
        query and the two silos, and the key stream of ChaCha20 under it.

        Args:
            other: Name of the other silo.
            query: Name of the query.
            size: How many words.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        other_key = X25519PublicKey.from_public_bytes(
            bytes.fromhex(self.sum.keys[other])
        )
        info = canonical_json({"mask": query, "of": sorted((self.silo, other))})
        stream_key = HKDF(
            algorithm=SHA256(),
            length=32,
            salt=bytes.fromhex(self.sum.identity),
            info=info,
        ).derive(self.private_key.exchange(other_key))
        # The nonce may be zero: a key is used for one stream.
        algorithm = algorithms.ChaCha20(stream_key, bytes(16))
        encryptor = Cipher(algorithm, mode=None).encryptor()
        stream = encryptor.update(bytes(8 * size))
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def generate_key_pair() -> tuple[str, str]:
    """Generates a key pair of X25519.

    Returns:
        The private and the public key, both in hexadecimal.

    Raises:
        MissingExtraError: if the package cryptography is not installed.
    """
    require("cryptography", "a secure sum")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.generate()
    return key.private_bytes_raw().hex(), key.public_key().public_bytes_raw().hex()


def private_key_from_digits(digits: str) -> Any:
    """Returns the private key that `generate_key_pair` has generated.

    Args:
        digits: The key in hexadecimal.

    Returns:
        An `X25519PrivateKey`, of a package that is optional.

    Raises:
        ValueError: if it is no key of X25519.
        MissingExtraError: if the package cryptography is not installed.
    """
    require("cryptography", "a secure sum")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(bytes.fromhex(digits))


def halves_of_words(words: Words) -> npt.NDArray[np.float64]:
    """Writes words as a release holds them: as halves, since float64 has 53 bits.

    Args:
        words: Words, (dim, columns).

    Returns:
        High halves above low ones, (2·dim, columns).

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.silos.keys import halves_of_words
        >>> halves_of_words(np.array([[2**32 + 5]], dtype=np.uint64)).tolist()
        [[1.0], [5.0]]
    """
    high = words >> np.uint64(32)
    low = words & np.uint64(_HALF_WORD - 1)
    return np.concatenate((high, low)).astype(np.float64)


def words_from_halves(halves: npt.NDArray[np.float64]) -> Words:
    """Reads the words that `halves_of_words` has written.

    Args:
        halves: High halves above low ones, (2·dim, columns).

    Returns:
        Words, (dim, columns).

    Raises:
        ValueError: if they are no halves: not integers in [0, 2³²), two for each word.
    """
    has_both_halves = len(halves) % 2 == 0
    is_half = (halves >= 0) & (halves < _HALF_WORD) & (halves == np.floor(halves))
    if not has_both_halves or not is_half.all():
        raise ValueError("no halves of words")
    high, low = np.split(halves.astype(np.uint64), 2)
    return (high << np.uint64(32)) | low
