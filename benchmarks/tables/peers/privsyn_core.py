"""PrivSyn of privsyn-core, with its defaults.

It takes codes alone, so numbers are binned. It turns ε and δ into ρ of zero-concentrated privacy, and spends a tenth of
it on which pairs depend, a tenth on single columns, the rest on pairs.
"""

from __future__ import annotations

from contract import BINS, Answer, Request, coded, decoded, run
from privsyn import PrivSynModel


def fit(request: Request) -> Answer:
    """Fits PrivSyn to codes and draws as many records as were read."""
    codes, sizes = coded(request)
    model = PrivSynModel(
        epsilon=request.epsilon, delta=request.delta, random_state=request.seed
    )
    drawn = model.fit(codes, sizes).sample(len(codes))
    return Answer(
        synthetic=decoded(request, drawn),
        settings={"delta": request.delta, "bins": BINS},
    )


if __name__ == "__main__":
    run("privsyn-core", fit)
