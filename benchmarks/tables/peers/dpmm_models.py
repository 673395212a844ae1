"""The pipelines of dpmm (SAS), with the defaults of its documentation.

dpmm spends `proc_epsilon` on its bins (PrivTree, inside the public bounds) beside `epsilon` for the model, 0.1 beside 1
by default. Both together must be the ε of the comparison, so it is split in that ratio. Every other
option is the default.
"""

from __future__ import annotations

from typing import Any

from contract import Answer, Request

MODEL_SHARE = 10 / 11


def fit(pipeline: type, request: Request) -> Answer:
    """Fits one pipeline class and draws as many records as it read."""
    model, bins = request.epsilon * MODEL_SHARE, request.epsilon * (1 - MODEL_SHARE)
    domain: dict[str, Any] = {
        name: {"lower": low, "upper": high}
        for name, (low, high, _) in request.bounds.items()
    }
    domain |= {name: {"categories": levels} for name, levels in request.levels.items()}
    made = pipeline(epsilon=model, delta=request.delta, proc_epsilon=bins)
    made.fit(request.train, domain, random_state=request.seed)
    synthetic = made.generate(n_records=len(request.train), random_state=request.seed)
    return Answer(
        synthetic=synthetic,
        settings={"epsilon": model, "delta": request.delta, "proc_epsilon": bins},
    )
