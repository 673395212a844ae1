"""Differentially private synthetic data, with a certificate anyone can check.

Private records come up to one gate; bounded sums with noise leave it, and nothing else does. Start with `synthesize`,
or with `Gate` and `Pairwise` for more control. Names are loaded when first used, so that importing noisegate is quick.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from noisegate._version import __version__

if TYPE_CHECKING:
    from noisegate.api import evaluate as evaluate
    from noisegate.api import fit as fit
    from noisegate.api import synthesize as synthesize
    from noisegate.auditing.run import audit as audit
    from noisegate.data.draft import draft_schema as draft_schema
    from noisegate.errors import BudgetRefusedError as BudgetRefusedError
    from noisegate.errors import NoisegateError as NoisegateError
    from noisegate.errors import UserError as UserError
    from noisegate.estimators import LocallyLinearMaps as LocallyLinearMaps
    from noisegate.estimators import PrivateSampler as PrivateSampler
    from noisegate.gate.engines.ray import RayEngine as RayEngine
    from noisegate.gate.gate import Gate as Gate
    from noisegate.gate.queries.discovery import discover_schema as discover_schema
    from noisegate.ledger.ledger import Ledger as Ledger
    from noisegate.methods.datalens import DataLens as DataLens
    from noisegate.methods.dp_sinkhorn import DPSinkhorn as DPSinkhorn
    from noisegate.methods.dpdm import DPDM as DPDM
    from noisegate.methods.dre import DPDRE as DPDRE
    from noisegate.methods.feta import DPFETA as DPFETA
    from noisegate.methods.g_pate import GPATE as GPATE
    from noisegate.methods.gan import DPCGAN as DPCGAN
    from noisegate.methods.gan import DPGAN as DPGAN
    from noisegate.methods.gs_wgan import GSWGAN as GSWGAN
    from noisegate.methods.hp import DPHP as DPHP
    from noisegate.methods.joint import JointEmbedding as JointEmbedding
    from noisegate.methods.mepf import DPMEPF as DPMEPF
    from noisegate.methods.merf import DPMERF as DPMERF
    from noisegate.methods.mge import DPMGE as DPMGE
    from noisegate.methods.ntk import DPNTK as DPNTK
    from noisegate.methods.pairwise import Pairwise as Pairwise
    from noisegate.methods.pate_gan import PATEGAN as PATEGAN
    from noisegate.methods.pe import PrivateEvolution as PrivateEvolution
    from noisegate.methods.privbayes import PrivBayes as PrivBayes
    from noisegate.methods.psg import PrivateSetGeneration as PrivateSetGeneration
    from noisegate.methods.tab_pe import TabPE as TabPE
    from noisegate.models.folder import verify as verify
    from noisegate.models.saved import load as load
    from noisegate.models.synthesizer import Synthesizer as Synthesizer
    from noisegate.pages import report as report
    from noisegate.privacy.certificate import Certificate as Certificate
    from noisegate.privacy.events import Adjacency as Adjacency
    from noisegate.privacy.plan import Budget as Budget
    from noisegate.privacy.release import Release as Release
    from noisegate.schema import Schema as Schema
    from noisegate.silos.merging import merge as merge
    from noisegate.silos.rounds import release as release
    from noisegate.verdict import Verdict as Verdict

logging.getLogger("noisegate").addHandler(logging.NullHandler())

_HOMES = {
    "Adjacency": "noisegate.privacy.events",
    "Budget": "noisegate.privacy.plan",
    "BudgetRefusedError": "noisegate.errors",
    "Certificate": "noisegate.privacy.certificate",
    "DPCGAN": "noisegate.methods.gan",
    "DPDM": "noisegate.methods.dpdm",
    "DPDRE": "noisegate.methods.dre",
    "DPFETA": "noisegate.methods.feta",
    "DPGAN": "noisegate.methods.gan",
    "DPHP": "noisegate.methods.hp",
    "DPMEPF": "noisegate.methods.mepf",
    "DPMERF": "noisegate.methods.merf",
    "DPMGE": "noisegate.methods.mge",
    "DPNTK": "noisegate.methods.ntk",
    "DPSinkhorn": "noisegate.methods.dp_sinkhorn",
    "DataLens": "noisegate.methods.datalens",
    "GPATE": "noisegate.methods.g_pate",
    "GSWGAN": "noisegate.methods.gs_wgan",
    "Gate": "noisegate.gate.gate",
    "JointEmbedding": "noisegate.methods.joint",
    "Ledger": "noisegate.ledger.ledger",
    "LocallyLinearMaps": "noisegate.estimators",
    "NoisegateError": "noisegate.errors",
    "PATEGAN": "noisegate.methods.pate_gan",
    "Pairwise": "noisegate.methods.pairwise",
    "PrivBayes": "noisegate.methods.privbayes",
    "PrivateEvolution": "noisegate.methods.pe",
    "PrivateSampler": "noisegate.estimators",
    "PrivateSetGeneration": "noisegate.methods.psg",
    "RayEngine": "noisegate.gate.engines.ray",
    "Release": "noisegate.privacy.release",
    "Schema": "noisegate.schema",
    "Synthesizer": "noisegate.models.synthesizer",
    "TabPE": "noisegate.methods.tab_pe",
    "UserError": "noisegate.errors",
    "Verdict": "noisegate.verdict",
    "audit": "noisegate.auditing.run",
    "discover_schema": "noisegate.gate.queries.discovery",
    "draft_schema": "noisegate.data.draft",
    "evaluate": "noisegate.api",
    "fit": "noisegate.api",
    "load": "noisegate.models.saved",
    "merge": "noisegate.silos.merging",
    "release": "noisegate.silos.rounds",
    "report": "noisegate.pages",
    "synthesize": "noisegate.api",
    "verify": "noisegate.models.folder",
}
__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'noisegate' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
