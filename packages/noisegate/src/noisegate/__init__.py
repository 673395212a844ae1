"""Differentially private synthetic data, with a certificate anyone can check.

Private records come up to one gate; bounded sums with noise leave it, and nothing else
does. Start with `synthesize`, or with `Gate` and `Pairwise` for more control. Names are
loaded when first used, so that importing noisegate is quick.

The rooms, from records to samples. Each knows those before it alone, and nothing before
the border knows what comes behind it; import contracts (`.importlinter`) see to both::

    schema     what is public: columns, bounds, levels, rules
    sources    records in batches, from files, frames and stores
    privacy    what it costs: budget, plan, events, accountant, noise, certificate
    queries    the vector of one record, and the bound of its norm
    ledger     what was spent
    gate       the one door: reserves the cost, sums vectors, adds noise
    ───────────────────── the border: below, no record is seen ─────────────────────
    answers    what was learnt: tables of noisy counts, verdicts, intervals
    models     what is fitted to a release: sampling, files, folders
    methods    which queries are asked, and which model is fitted
    app        command line, runs, drafts of schemas, streams and silos for users

docs/trusted-base.md says in which order to read the rooms above the border, and what
each file of them is trusted for.
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

from noisegate._version import __version__ as __version__

logging.getLogger("noisegate").addHandler(logging.NullHandler())

# Modules that the documentation named until 0.3 are found, with a warning, by the names
# that they had: noisegate.features.feature_map, for instance.
__path__.append(f"{__path__[0]}/_old_names")

_HOMES = {
    "Adjacency": "noisegate.privacy.events",
    "Budget": "noisegate.privacy.plan",
    "BudgetRefusedError": "noisegate.errors",
    "Certificate": "noisegate.privacy.certificate",
    "Gate": "noisegate.gate.gate",
    "Ledger": "noisegate.ledger.ledger",
    "NoisegateError": "noisegate.errors",
    "RayEngine": "noisegate.gate.engines.ray",
    "Release": "noisegate.privacy.release",
    "Schema": "noisegate.schema",
    "Synthesizer": "noisegate.models.synthesizer",
    "UserError": "noisegate.errors",
    "Verdict": "noisegate.answers.verdict",
    "discover_schema": "noisegate.gate.discovery.schema_gate",
    "draft_schema": "noisegate.app.drafts.draft",
    "fit": "noisegate.app.api",
    "fit_period": "noisegate.app.streams.periods",
    "list_methods": "noisegate.methods.registry",
    "load": "noisegate.models.synthesizer",
    "merge": "noisegate.app.silos.merging",
    "plan": "noisegate.app.api",
    "plan_stream": "noisegate.app.streams.periods",
    "release": "noisegate.app.silos.rounds",
    "sign": "noisegate.app.signature",
    "simulated_patients": "noisegate.app.example",
    "split_records": "noisegate.sources.split",
    "synthesize": "noisegate.app.api",
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
