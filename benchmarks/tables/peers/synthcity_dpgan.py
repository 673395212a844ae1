"""DP-GAN of synthcity, with its defaults.

It takes ranges and levels from the records, and which network it keeps from records held out, read without noise; it
does not count that.
"""

from __future__ import annotations

from contract import Answer, Request, run
from synthcity.plugins import Plugins


def fit(request: Request) -> Answer:
    """Trains the networks and draws as many records as were read."""
    model = Plugins().get(
        "dpgan", epsilon=request.epsilon, delta=request.delta, random_state=request.seed
    )
    model.fit(request.train)
    synthetic = model.generate(count=len(request.train)).dataframe()
    for name, (_, _, whole) in request.bounds.items():
        synthetic[name] = (
            synthetic[name].round().astype("int64") if whole else synthetic[name]
        )
    return Answer(synthetic=synthetic, settings={"delta": request.delta})


if __name__ == "__main__":
    run("synthcity", fit)
