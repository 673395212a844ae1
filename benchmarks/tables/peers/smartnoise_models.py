"""The marginal synthesizers of smartnoise-synth, with its default of 10 bins of equal width inside the public bounds.

Its default δ is 1e-9, so the δ of the comparison is passed. Given the bounds it spends nothing on preprocessing.
"""

from __future__ import annotations

from contract import Answer, Request
from snsynth import Synthesizer
from snsynth.transform import BinTransformer, LabelTransformer, TableTransformer


def fit(kind: str, request: Request) -> Answer:
    """Fits one synthesizer and draws as many records as it read."""
    columns = [
        LabelTransformer(nullable=False)
        if name in request.levels
        else BinTransformer(
            lower=request.bounds[name][0], upper=request.bounds[name][1]
        )
        for name in request.train.columns
    ]
    synthesizer = Synthesizer.create(kind, epsilon=request.epsilon, delta=request.delta)
    synthesizer.fit(request.train, transformer=TableTransformer(columns))
    synthetic = synthesizer.sample(len(request.train))
    for column, (_, _, whole) in request.bounds.items():
        synthetic[column] = (
            synthetic[column].round().astype("int64") if whole else synthetic[column]
        )
    return Answer(
        synthetic=synthetic,
        settings={"synthesizer": kind, "delta": request.delta, "bins": 10},
    )
