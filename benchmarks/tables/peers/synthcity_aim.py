"""AIM of synthcity, with its defaults.

It takes a level for each value that is there, so numbers are binned. Drawing runs the mechanism again, and spends
again, for as long as records that are alike are thrown away and too few are left; so it draws once and keeps them all.
"""

from __future__ import annotations

from contract import BINS, Answer, Request, coded, decoded, run
from synthcity.plugins import Plugins


def fit(request: Request) -> Answer:
    """Runs AIM once; it draws about as many records as were read."""
    codes, _ = coded(request)
    levels = codes.map(lambda code: f"L{code}")
    options = {
        "epsilon": request.epsilon,
        "delta": request.delta,
        "random_state": request.seed,
    }
    model = Plugins().get("aim", **options, sampling_patience=1, strict=False)
    model.fit(levels)
    drawn = model.generate(count=len(codes)).dataframe()
    synthetic = decoded(request, drawn.map(lambda level: int(level[1:])))
    return Answer(synthetic=synthetic, settings={"delta": request.delta, "bins": BINS})


if __name__ == "__main__":
    run("synthcity", fit)
