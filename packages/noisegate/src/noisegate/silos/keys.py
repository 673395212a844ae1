"""Keys of silos for sums under masks: a private one that stays, and a public one that all the others get.

::

    north.key         private: whoever has it can take north's masks off
    north.pub         public: name and key
    north.key.used/   the sums in which the key was used; each is used once
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.atomic import new_file, second_name
from noisegate.errors import ModelError, OptionError
from noisegate.privacy.events import event_to_json
from noisegate.privacy.plan import CalibratedPlan
from noisegate.privacy.release import Release, read_json
from noisegate.silos.masks import Masking, SecureSum, as_words, new_key, private_key, public_key

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
        shared = SecureSum(keys=self.keys, colluding=self.colluding, plan=plan, events=events, after=after)
        used = self.path.with_name(self.path.name + ".used")
        return Masking(sum=shared, silo=self.silo, private_key=self.private_key, used=used)


def write_key(silo: str, out: Path) -> Path:
    """Writes a new private key, for its owner's eyes alone, and the public one beside it, whose path is returned."""
    if not silo.strip() or not silo.isprintable():
        raise OptionError(f"silo={silo!r} must be the name of this silo in one line, such as 'north'.")
    beside = out.with_suffix(PUBLIC)
    if beside == out:
        raise OptionError(f"--out {out}: the public key gets this name; choose another, such as {silo}.key.")
    private, public = new_key()
    for path, content in ((out, {"private": private}), (beside, {"public": public})):
        with new_file(path) as new:
            new.chmod(0o600)
            new.write_text(json.dumps({"format": FORMAT, "silo": silo.strip(), **content}) + "\n", encoding="utf-8")
    beside.chmod(0o644)
    return beside


def silo_key(folder: str | Path | None, key: str | Path | None, colluding: int) -> SiloKey | None:
    """Returns what a secure sum takes: a folder of public keys and a private one; None without them."""
    if folder is None and key is None:
        return None
    if folder is None or key is None:
        raise OptionError(
            f"secure_sum={folder!r} and key={key!r} go together: the folder with the public key of every silo, and the "
            "private key of this one."
        )
    keys, path = read_keys(Path(folder)), Path(key)
    silo, digits = _read(path, "private")
    if (why := second_name(path)) is not None:
        raise OptionError(
            f"key={str(path)!r} {why}. The sums in which it was used are remembered beside its name, and under another "
            "name it would be used twice."
        )
    try:
        private = private_key(digits)
    except ValueError:
        raise ModelError(f"{path} holds no private key of X25519; make one with `noisegate key`.") from None
    if keys.get(silo) != public_key(private):
        raise OptionError(f"key={str(path)!r}: {folder} holds no public key of {silo!r} that belongs to it.")
    return SiloKey(silo=silo, path=path, keys=keys, colluding=colluding, private_key=private)


def read_keys(folder: Path) -> dict[str, str]:
    """Returns the public keys in a folder, by the names of the silos, sorted."""
    keys: dict[str, str] = {}
    for path in sorted(folder.glob("*" + PUBLIC)):
        silo, digits = _read(path, "public")
        if silo in keys:
            raise OptionError(f"{folder} holds two public keys of the silo {silo!r}; keep the one that it uses.")
        keys[silo] = digits
    if len(keys) < 2:
        raise OptionError(f"secure_sum={str(folder)!r} holds {len(keys)} public keys (*{PUBLIC}); it needs all silos'.")
    return dict(sorted(keys.items()))


def _read(path: Path, kind: str) -> tuple[str, str]:
    try:
        content = read_json(path)
        silo, digits = content["silo"], content[kind]
        if content["format"] != FORMAT or not isinstance(silo, str) or len(bytes.fromhex(digits)) != 32:
            raise ValueError("another format")
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist; `noisegate key` makes keys.") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ModelError(f"{path} holds no {kind} key; `noisegate key` makes keys.") from None
    return silo, digits


def facts_of(shared: SecureSum) -> dict[str, Any]:
    """Returns what the certificate of a share says of the sum."""
    return {"keys": dict(shared.keys), "colluding": shared.colluding, "sum": shared.identity}


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
        raise ModelError(f"a share's certificate states no secure sum: {type(error).__name__} at {error}.") from None
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
            raise OptionError(f"silos {names[0]!r} and {name!r}: one is a share of a secure sum, and the other is not.")
        if first is not None and one is not None and one.identity != first.identity:
            differ = [part for part in vars(first) if getattr(one, part) != getattr(first, part)]
            raise OptionError(
                f"silos {names[0]!r} and {name!r} are shares of different sums ({', '.join(differ)} differ): masks "
                "would not cancel. All silos answer under one plan, one ε, one folder of keys and one --colluding."
            )
    if first is not None and (missing := sorted(set(first.keys) - set(names))):
        raise OptionError(
            f"the share of {', '.join(missing)} is missing: without it the masks of the others do not cancel. Wait for "
            "it; or begin anew without that silo, with new keys, which costs ε again."
        )
    return first


def unmasked(releases: Sequence[Release], name: str) -> npt.NDArray[np.int64]:
    """Returns the sum over all silos of the answers to a query, with noise, in grid units, (dim, columns)."""
    try:
        total = np.sum([as_words(release.values[name]) for release in releases], axis=0, dtype=np.uint64)
    except ValueError:
        raise ModelError(f"query {name!r}: a share holds no halves of words.") from None
    return np.asarray(total).view(np.int64)
