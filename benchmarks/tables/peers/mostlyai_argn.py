"""TabularARGN of mostlyai-engine, trained with differential privacy and its defaults.

Its `max_epsilon` counts what ranges and levels cost (`value_protection_epsilon`), by default a tenth, which is kept.
Training ends before a checkpoint would cost more. Which checkpoint is kept follows from losses on records that are held
out, read without noise; it does not count that.
"""

from __future__ import annotations

from contract import Answer, Request, run
from mostlyai.engine import TabularARGN
from mostlyai.engine.domain import DifferentialPrivacyConfig

VALUES_SHARE = 1 / 10


def fit(request: Request) -> Answer:
    """Trains a network and draws as many records as were read."""
    private = DifferentialPrivacyConfig(
        max_epsilon=request.epsilon,
        delta=request.delta,
        value_protection_epsilon=request.epsilon * VALUES_SHARE,
    )
    network = TabularARGN(
        differential_privacy=private, random_state=request.seed, device="cpu", verbose=1
    )
    network.fit(request.train)
    synthetic = network.sample(n_samples=len(request.train))
    for name, (lower, upper, _) in request.bounds.items():
        synthetic[name] = synthetic[name].clip(lower, upper)
    return Answer(synthetic=synthetic, settings=private.model_dump())


if __name__ == "__main__":
    run("mostlyai-engine", fit)
