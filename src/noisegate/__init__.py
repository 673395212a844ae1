"""Differentially private synthetic data, with a certificate anyone can check.

Private records come up to one gate; bounded sums with noise leave it, and nothing else does. Start with `synthesize`,
or with `Gate` and `Pairwise` for more control. Names are loaded when first used, so that importing noisegate is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from noisegate._version import __version__

if TYPE_CHECKING:
    from noisegate.api import synthesize as synthesize
    from noisegate.auditing.run import audit as audit
    from noisegate.errors import BudgetRefusedError as BudgetRefusedError
    from noisegate.errors import NoisegateError as NoisegateError
    from noisegate.errors import UserError as UserError
    from noisegate.estimators import LocallyLinearMaps as LocallyLinearMaps
    from noisegate.gate.discovery import discover_schema as discover_schema
    from noisegate.gate.gate import Gate as Gate
    from noisegate.methods.dre.method import DPDRE as DPDRE
    from noisegate.methods.gan.method import DPCGAN as DPCGAN
    from noisegate.methods.gan.method import DPGAN as DPGAN
    from noisegate.methods.hp.method import DPHP as DPHP
    from noisegate.methods.joint import JointEmbedding as JointEmbedding
    from noisegate.methods.mepf.method import DPMEPF as DPMEPF
    from noisegate.methods.merf import DPMERF as DPMERF
    from noisegate.methods.mge.method import DPMGE as DPMGE
    from noisegate.methods.pairwise.method import Pairwise as Pairwise
    from noisegate.methods.psg.method import PrivateSetGeneration as PrivateSetGeneration
    from noisegate.privacy.adjacency import Adjacency as Adjacency
    from noisegate.privacy.certificate import Certificate as Certificate
    from noisegate.privacy.ledger import Ledger as Ledger
    from noisegate.privacy.plan import Budget as Budget
    from noisegate.privacy.release import Release as Release
    from noisegate.schema import Schema as Schema
    from noisegate.synthesizer import Synthesizer as Synthesizer

_HOMES = {
    "Adjacency": "noisegate.privacy.adjacency",
    "Budget": "noisegate.privacy.plan",
    "BudgetRefusedError": "noisegate.errors",
    "Certificate": "noisegate.privacy.certificate",
    "DPCGAN": "noisegate.methods.gan.method",
    "DPDRE": "noisegate.methods.dre.method",
    "DPGAN": "noisegate.methods.gan.method",
    "DPHP": "noisegate.methods.hp.method",
    "DPMEPF": "noisegate.methods.mepf.method",
    "DPMERF": "noisegate.methods.merf",
    "DPMGE": "noisegate.methods.mge.method",
    "Gate": "noisegate.gate.gate",
    "JointEmbedding": "noisegate.methods.joint",
    "Ledger": "noisegate.privacy.ledger",
    "LocallyLinearMaps": "noisegate.estimators",
    "NoisegateError": "noisegate.errors",
    "Pairwise": "noisegate.methods.pairwise.method",
    "PrivateSetGeneration": "noisegate.methods.psg.method",
    "Release": "noisegate.privacy.release",
    "Schema": "noisegate.schema",
    "Synthesizer": "noisegate.synthesizer",
    "UserError": "noisegate.errors",
    "audit": "noisegate.auditing.run",
    "discover_schema": "noisegate.gate.discovery",
    "synthesize": "noisegate.api",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'noisegate' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
