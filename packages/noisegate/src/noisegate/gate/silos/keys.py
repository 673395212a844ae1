"""Keys of silos, and the masks that cancel in the sum of their answers (G-32).

A silo is one of several owners of private records. Each silo answers with its share:
its own noisy sum plus a mask, which hides it. Every silo has two key files, and a
folder beside them::

    north.key         private: whoever has it can take north's masks off
    north.pub         public: name and key
    north.key.used/   the sums in which the key was used; each is used once

Any two silos derive a stream of random words (64-bit integers) that nobody else knows,
from the private key of one and the public key of the other. One adds it to its sum, the
other subtracts it, modulo 2⁶⁴. So all masks together are zero::

    north   sum + noise + stream(north, south) + stream(north, west)
    south   sum + noise − stream(north, south) + stream(south, west)
    west    sum + noise − stream(north, west)  − stream(south, west)
    ────────────────────────────────────────────────────────────────
    total   sums + noises

How to read it: `write_key` and `read_silo_key` are for one silo, `check_shares` and
`sum_shares` for whoever adds the shares up; `SecureSum` is what all shares of a sum
have in common, and `Masking` computes the masks of one silo.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
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
from noisegate.privacy.plan import Plan
from noisegate.privacy.release import Release, read_json

FORMAT = 1
"""Version of the files of keys."""
PUBLIC_SUFFIX = ".pub"
"""How the names of public keys end."""
# Bytes of a key of X25519.
_KEY_SIZE = 32
# A release holds float64, which has 53 bits. So a word of 64 bits is stored as two
# numbers below 2³², its halves.
_HALF_WORD = 2**32


@dataclass(frozen=True, kw_only=True)
class SiloKey:
    """What one silo needs for secure sums: its private key, and all public ones.

    Attributes:
        silo: Name of this silo.
        path: File of the private key of this silo.
        keys: Public keys of all silos, in hexadecimal, by the names of the silos.
        colluding: How many of the silos may pool what they know, their noise included.
        private_key: The private key of this silo, an `X25519PrivateKey`.
    """

    silo: str
    path: Path
    keys: Mapping[str, str]
    colluding: int
    private_key: Any = field(repr=False)

    def masking_of_round(
        self, round_plan: Plan, *, plan: str, after: str | None
    ) -> Masking:
        """Returns the masks of this silo in the sums of one round, none used yet.

        A mask hides the noisy sum of this silo; over all silos the masks of a query
        cancel. Each round of a plan has masks of its own.

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
    """Generates the key pair of a silo and writes it into two files.

    The file of the private key is readable by its owner alone, that of the public key
    by everybody.

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
    # The private key first: a public key that others use must belong to one on disk.
    _write_key_file(out, silo, "private", private_digits)
    _write_key_file(public_path, silo, "public", public_digits)
    public_path.chmod(0o644)
    return public_path


def _write_key_file(path: Path, silo: str, kind: str, digits: str) -> None:
    """Writes one key into a new file, which its owner alone may read.

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
    """Reads the private key of a silo, and the public keys of all silos.

    Args:
        folder: Folder with the public key of every silo; None for no secure sum.
        key: File of the private key of this silo; None for no secure sum.
        colluding: How many of the silos may pool what they know, their noise included.

    Returns:
        The keys; None if neither folder nor file is given.

    Raises:
        OptionError: if only one of folder and file is given, no public key in the
            folder belongs to the private one, or the file has a second name, such as a
            link.
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
    """Reads the public keys of all silos from a folder.

    Args:
        folder: The folder. Files that do not end in ``.pub`` are passed over.

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
    """Reads one key, with the name of its silo, from a file.

    Args:
        path: The file.
        kind: Which kind of key it must hold: "private" or "public".

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
    """Returns what the certificate of a share states of its secure sum, for JSON.

    Args:
        secure_sum: The sum of which it is a share.
    """
    return {
        "keys": dict(secure_sum.keys),
        "colluding": secure_sum.colluding,
        "sum": secure_sum.identity,
    }


def secure_sum_of(release: Release) -> SecureSum | None:
    """Returns the secure sum that a release is a share of; None if it is no share.

    The certificate of a share states the identity of its sum, a hash of keys, plan,
    noise and round. The identity is computed again from these facts and compared, so
    that a share cannot pass for one of another sum.

    Args:
        release: The release of one silo.

    Raises:
        ModelError: if the facts of the sum are missing from its certificate, or have
            another identity than is stated.
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

    A share is a release with a mask; only in the sum of all shares do the masks cancel.

    Args:
        releases: Releases of the silos, at least one.

    Returns:
        The secure sum; None if no release is a share.

    Raises:
        OptionError: if some releases are shares and others are not, they are shares of
            different sums, or the share of a silo is missing.
        ModelError: if a certificate contradicts itself.
    """
    secure_sums = [secure_sum_of(release) for release in releases]
    silo_names = [str(release.certificate.public.get("silo")) for release in releases]
    first_sum = secure_sums[0]
    for silo, secure_sum in zip(silo_names, secure_sums, strict=True):
        if (secure_sum is None) is not (first_sum is None):
            raise OptionError(
                f"silos {silo_names[0]!r} and {silo!r}: one is a share of a secure sum, and "
                "the other is not."
            )
        if first_sum is None or secure_sum is None:
            continue
        if secure_sum.identity != first_sum.identity:
            differing_fields = [
                name
                for name in vars(first_sum)
                if getattr(secure_sum, name) != getattr(first_sum, name)
            ]
            raise OptionError(
                f"silos {silo_names[0]!r} and {silo!r} are shares of different sums "
                f"({', '.join(differing_fields)} differ): masks would not cancel. All "
                "silos answer under one plan, one ε, one folder of keys and one "
                "--colluding."
            )
    if first_sum is not None:
        missing_silos = sorted(set(first_sum.keys) - set(silo_names))
        if missing_silos:
            raise OptionError(
                f"the share of {', '.join(missing_silos)} is missing: without it "
                "the masks of the others do not cancel. Wait for it; or start "
                "again without that silo, with new keys, which costs ε again."
            )
    return first_sum


def sum_shares(releases: Sequence[Release], query: str) -> npt.NDArray[np.int64]:
    """Adds up the shares of all silos for one query, so that their masks cancel.

    A share is a silo's noisy sum plus its mask, a 64-bit integer modulo 2⁶⁴. The masks
    of all silos add up to zero, and what remains is the noisy sum over all silos. If
    the share of one silo is missing, the result is as random as its mask: so call
    `check_shares` first.

    Args:
        releases: The shares of all silos of one secure sum.
        query: Name of the query.

    Returns:
        The noisy sum over all silos in grid units, (dim, columns).

    Raises:
        ModelError: if a release has no share for the query, or shares have different
            shapes.
    """
    shares = [_read_share(release, query) for release in releases]
    if len({share.shape for share in shares}) > 1:
        raise ModelError(f"query {query!r}: the shares have different shapes.")
    total = np.sum(shares, axis=0, dtype=np.uint64)
    # Read as signed integers: a negative sum is stored as a word from 2⁶³ on.
    return np.asarray(total).view(np.int64)


def _read_share(release: Release, query: str) -> Words:
    """Reads a silo's share for one query from its release.

    Args:
        release: The release. It stores each word as two halves, see `halves_of_words`.
        query: Name of the query.

    Returns:
        The noisy sum of the silo plus its mask, modulo 2⁶⁴, (dim, columns).

    Raises:
        ModelError: if the release has no such values.
    """
    try:
        return words_from_halves(release.values[query])
    except (KeyError, ValueError):
        raise ModelError(
            f"query {query!r}: a share holds no halves of words."
        ) from None


Words = npt.NDArray[np.uint64]
"""Words: integers modulo 2⁶⁴, whose sums and differences wrap around."""


@dataclass(frozen=True, kw_only=True)
class SecureSum:
    """What the shares of all silos in one sum have in common.

    A share is a silo's own noisy sum plus its mask. Masks cancel only between silos
    that agree in all of these fields.

    Raises:
        OptionError: if there are too few or too many silos, all of them may collude, or
            two have the same key.
    """

    keys: Mapping[str, str]
    """Public key of each silo, of X25519 in hexadecimal, by the name of the silo."""
    colluding: int
    """How many of the silos may pool what they know, and tell it to whoever adds the
    shares up. They can subtract their own noise, so that of the others must suffice."""
    plan: str
    """Identifier of the published plan."""
    events: tuple[Mapping[str, Any], ...]
    """The privacy events of the round, each a query with its noise, for JSON."""
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
        """Number of silos that do not collude, whose noise alone must suffice."""
        return len(self.keys) - self.colluding

    @property
    def identity(self) -> str:
        """SHA-256 of all fields, in hexadecimal. Sums with another field have another.

        Masks are derived for this identity, so no two sums have the same masks.
        """
        stated = {part.name: getattr(self, part.name) for part in fields(self)}
        return hashlib.sha256(
            canonical_json({**stated, "keys": dict(self.keys)})
        ).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Masking:
    """The masks of one silo in one sum, which are used for one answer only."""

    sum: SecureSum
    """The sum, with the public keys of all silos."""
    silo: str
    """Name of this silo."""
    private_key: Any = field(repr=False)
    """Private key of this silo, of X25519."""
    used_folder: Path
    """Folder with an empty file for each sum in which the private key was used."""

    def mark_used(self) -> None:
        """Marks the masks as used, on disk, before an answer leaves under them.

        Two answers under the same masks would show their difference. So a second call
        is refused in every process, even if the first caller was killed right after it
        and has answered nothing. `test_masks_are_used_once` and
        `test_marks_are_on_disk_before_anything_is_masked` notice a change of this.

        Raises:
            OptionError: if the masks were used, or the mark cannot be written.
        """
        try:
            self.used_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Whoever could remove a mark could have the masks used twice.
            close_to_others(self.used_folder)
            # The mark is an empty file, named by the identity of the sum.
            with (self.used_folder / self.sum.identity).open("x") as mark:
                os.fsync(mark.fileno())
        except FileExistsError:
            raise OptionError(
                f"silo {self.silo!r} has answered this sum before, or was stopped "
                f"in it: {self.used_folder} says so. A second answer under the "
                "same masks would show the difference of both. All silos make new "
                "keys and start again."
            ) from None
        except PermissionError as error:
            raise OptionError(
                f"{self.used_folder} cannot be written: {error.strerror}. It remembers "
                "the sums in which the key was used; move the key to a folder of your "
                "own."
            ) from None
        # The directory entries of the mark and of its folder are written to disk too,
        # so that they outlive a power cut.
        sync_folders(self.used_folder, self.used_folder.parent)

    def mask(self, query: str, size: int) -> Words:
        """Computes the mask that hides this silo's answer to a query.

        The mask is a sum over all other silos, of a stream of random words that this
        silo and the other one have in common. Of the two, the silo whose name comes
        first adds the stream and the other subtracts it, so that the masks of all silos
        add up to zero. `test_masks_cancel` notices if they do not.

        Args:
            query: Name of the query.
            size: Number of words of the answer.

        Returns:
            The mask, (size,), modulo 2⁶⁴.
        """
        total = np.zeros(size, dtype=np.uint64)
        for other in self.sum.keys:
            if other == self.silo:
                continue
            stream = self._stream(other, query, size)
            if self.silo < other:
                total = total + stream
            else:
                total = total - stream
        return total

    def _stream(self, other: str, query: str, size: int) -> Words:
        """Computes random words that this silo and another one share, and nobody else.

        Both silos agree on a secret by X25519. HKDF derives from it a key for this sum,
        this query and these two silos. The words are the key stream of ChaCha20 under
        that key.

        What a change must keep: no two sums, queries or pairs of silos have the same
        key. `test_masks_of_two_queries_rounds_plans_and_rosters_have_nothing_in_common`
        notices if they do.

        Args:
            other: Name of the other silo.
            query: Name of the query.
            size: Number of words.

        Returns:
            Uniform words, (size,), the same in both silos.
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
        # The nonce may be zero, as each key is used for one stream only.
        algorithm = algorithms.ChaCha20(stream_key, bytes(16))
        encryptor = Cipher(algorithm, mode=None).encryptor()
        # Encrypting zeros gives the key stream itself; a word has 8 bytes.
        stream = encryptor.update(bytes(8 * size))
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def generate_key_pair() -> tuple[str, str]:
    """Generates a random key pair of X25519.

    Returns:
        The private key and the public key, each in 64 hexadecimal digits.

    Raises:
        MissingExtraError: if the package cryptography is not installed.
    """
    require("cryptography", "a secure sum")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.generate()
    return key.private_bytes_raw().hex(), key.public_key().public_bytes_raw().hex()


def private_key_from_digits(digits: str) -> Any:
    """Reads a private key from its hexadecimal digits.

    Args:
        digits: The digits, as `generate_key_pair` returns them.

    Returns:
        An `X25519PrivateKey` of the package cryptography, which is optional.

    Raises:
        ValueError: if it is no key of X25519.
        MissingExtraError: if the package cryptography is not installed.
    """
    require("cryptography", "a secure sum")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(bytes.fromhex(digits))


def halves_of_words(words: Words) -> npt.NDArray[np.float64]:
    """Writes words as a release stores them: each word as two halves of 32 bits.

    A release holds float64, which has 53 bits: a word of 64 bits would be rounded, but
    each half is exact.

    Args:
        words: Words, (dim, columns).

    Returns:
        The rows of high halves, and below them those of low halves, (2·dim, columns).

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
    """Reads words from halves of 32 bits, as `halves_of_words` has written them.

    Args:
        halves: The rows of high halves, and below them those of low halves,
            (2·dim, columns).

    Returns:
        Words, (dim, columns).

    Raises:
        ValueError: if a number is not an integer in [0, 2³²), or the number of rows is
            odd.
    """
    has_both_halves = len(halves) % 2 == 0
    is_half = (halves >= 0) & (halves < _HALF_WORD) & (halves == np.floor(halves))
    if not has_both_halves or not is_half.all():
        raise ValueError("no halves of words")
    high, low = np.split(halves.astype(np.uint64), 2)
    return (high << np.uint64(32)) | low
