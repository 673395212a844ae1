"""Differentially private synthetic data, with a certificate anyone can check.

Private records come up to one gate; bounded sums with noise leave it, and nothing else does. Start with `synthesize`,
or with `Gate` and `Pairwise` for more control. Names are loaded when first used, so that importing noisegate is quick.
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

from noisegate._version import __version__ as __version__

logging.getLogger("noisegate").addHandler(logging.NullHandler())

_HOMES = {
    "Adjacency": "noisegate.privacy.events",
    "Budget": "noisegate.privacy.plan",
    "BudgetRefusedError": "noisegate.errors",
    "Certificate": "noisegate.privacy.certificate",
    "Gate": "noisegate.gate.gate",
    "Ledger": "noisegate.ledger.ledger",
    "NoisegateError": "noisegate.errors",
    "Release": "noisegate.privacy.release",
    "Schema": "noisegate.schema",
    "Synthesizer": "noisegate.models.synthesizer",
    "UserError": "noisegate.errors",
    "Verdict": "noisegate.verdict",
    "fit": "noisegate.api",
    "list_methods": "noisegate.methods.registry",
    "load": "noisegate.models.synthesizer",
    "plan": "noisegate.api",
    "sign": "noisegate.silos.signature",
    "split_records": "noisegate.discovery.split",
    "synthesize": "noisegate.api",
    "verify": "noisegate.models.folder",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    from noisegate.registry import more

    if name == "__all__":
        return sorted({"__version__", *_HOMES, *_added()})
    if name in _added():
        return _added()[name].load()
    raise AttributeError(f"module 'noisegate' has no attribute {name!r}{more()}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_added()})


def _added() -> dict[str, EntryPoint]:
    """Returns what installed packages add: methods by the names of their classes, and what they call by a name here."""
    from noisegate.registry import extensions

    methods = {point.attr: point for point in extensions("noisegate.methods").values()}
    return {**extensions("noisegate.names"), **methods}
