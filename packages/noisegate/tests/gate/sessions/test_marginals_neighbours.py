"""What OpenDP's AIM and MST compute of neighbouring tables before any noise differs by at most the stated sensitivity.

Their noise is patched out: measured tables come out as they were counted, selections follow a script, and the model
that both depend on is the one of the first world, as neighbours are compared given everything that was released before.
Counts of single columns, which are drawn elsewhere, have a noise at ε = 1000 that is zero but for a chance below 1e-50.
"""

import math

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")

from tests.shared.columns import boolean, categorical, continuous

from noisegate.gate.gate import Gate
from noisegate.gate.sessions import marginals
from noisegate.privacy.marginal_plan import neighbour_distance, plan_marginals
from noisegate.queries.binning import NumericBins
from noisegate.schema import Schema

# OpenDP's models are compiled anew in each run.
pytestmark = pytest.mark.slow

SCHEMA = Schema(
    columns=(
        continuous("x", missing=True),
        categorical("c", "abd"),
        boolean("y", missing=True),
    )
)
BINS = (NumericBins((0.5,), nullable=True),)
SIZES = (3, 3, 3)
PAIRS = ((0, 1), (0, 2), (1, 2))
OPTIONS = {
    "MST": {"iterations": 3},
    "AIM": {"iterations": 3, "max_size": 1.0, "rounds": 4},
}
RECORDS = [
    (0.1, "a", True),
    (0.7, "b", False),
    (None, "d", None),
    (0.9, "a", None),
    (0.2, "b", True),
] * 3
EXTRA = [(0.6, "a", False), (None, "b", None)]


class Script:
    """What the first world did, for the second one to do again."""

    def __init__(self):
        self.measured = []
        self.scores = []
        self.chosen = []
        self.models = []
        self.stated = {"measured": set(), "scores": set()}

    def replay(self):
        other = Script()
        other.chosen = list(self.chosen)
        other.models = list(self.models)
        other.follows = True
        return other

    follows = False


@pytest.fixture
def run(monkeypatch):
    """Runs an algorithm on records with everything that OpenDP draws scripted; returns its release."""
    import opendp.extras.mbi._aim as aim
    import opendp.extras.mbi._mst as mst
    import opendp.extras.mbi._utilities as utilities
    import opendp.prelude as dp
    from opendp.mod import _PartialConstructor as Partial

    dp.enable_features("contrib", "honest-but-curious")
    script = None
    plain = marginals._fit_model
    noise = utilities.then_noise
    largest = mst.make_noisy_max

    def measurement_with(real, space, function, kind, what):
        def privacy_map(distance):
            # How far OpenDP says that neighbours are apart here, in the metric of the space.
            script.stated[what].add(distance)
            return real.map(distance)

        return dp.m.make_user_measurement(
            *space, real.output_measure, function, privacy_map, TO=kind
        )

    def then_noise(measure, scale):
        def make(*space):
            def count(exact):
                script.measured.append(np.asarray(exact))
                return exact

            return measurement_with(
                noise(measure, scale)(*space), space, count, "Vec<i32>", "measured"
            )

        return Partial(make)

    def make_noisy_max(*space, output_measure, scale):
        def choose(scores):
            script.scores.append(np.asarray(scores))
            if script.follows:
                return script.chosen[len(script.scores) - 1]
            script.chosen.append(int(np.argmax(scores)))
            return script.chosen[-1]

        return measurement_with(
            largest(*space, output_measure=output_measure, scale=scale),
            space,
            choose,
            "usize",
            "scores",
        )

    def estimate(domain, measured, **options):
        if script.follows:
            return script.models.pop(0)
        script.models.append(plain(domain, measured, **options))
        return script.models[-1]

    monkeypatch.setattr(utilities, "then_noise", then_noise)
    monkeypatch.setattr(mst, "make_noisy_max", make_noisy_max)
    monkeypatch.setattr(
        aim,
        "then_noisy_max",
        lambda **options: Partial(lambda *space: make_noisy_max(*space, **options)),
    )
    monkeypatch.setattr(marginals, "_fit_model", estimate)

    def release(records, algorithm, adjacency, follow):
        nonlocal script
        script = follow
        columns = zip(*records, strict=True)
        frame = pd.DataFrame(dict(zip("xcy", columns, strict=True)))
        frame["y"] = frame["y"].astype("boolean")
        frame["x"] = frame["x"].astype(float)
        gate = Gate(
            frame,
            schema=SCHEMA,
            epsilon=1000.0,
            adjacency=adjacency,
            records=len(records),
        )
        plan = plan_marginals(
            gate.budget,
            name="m",
            algorithm=algorithm,
            options=OPTIONS[algorithm],
            sizes=SIZES,
            candidates=PAIRS,
        )
        return gate.marginals(plan, BINS, method="m", public={}), plan

    return release


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("algorithm", ["MST", "AIM"])
def test_neighbours_differ_before_noise_by_at_most_the_stated_sensitivity(
    algorithm, adjacency, run
):
    first = Script()
    other = [*RECORDS, EXTRA[1]] if adjacency == "replace-one" else RECORDS
    one, plan = run([*RECORDS, EXTRA[0]], algorithm, adjacency, first)
    two, _ = run(other, algorithm, adjacency, second := first.replay())
    assert set(one.values) == set(two.values)
    assert len(first.measured) == len(second.measured) > 0
    # Add-remove: one record is in one cell of each table. Replace-one: two, so that the norm is √2.
    distance = neighbour_distance(plan.budget)
    norm = math.sqrt(distance)
    moved = []
    for name, values in one.values.items():
        assert np.array_equal(values, np.rint(values))  # no noise came in
        moved.append(np.linalg.norm(values - two.values[name]))
        assert moved[-1] <= norm + 1e-12
        assert one.noise_std[name] == two.noise_std[name]
    # Not vacuous: the records differ in every column.
    assert max(moved) == pytest.approx(norm)
    assert len(first.scores) == len(second.scores) > 0
    apart = [
        np.abs(a - b).max() for a, b in zip(first.scores, second.scores, strict=True)
    ]
    # AIM weighs the score of a table by what it has in common with the others: at most as much as with itself and both.
    (stated,) = first.stated["scores"]
    assert stated == distance * (4 if algorithm == "AIM" else 1)
    assert max(apart) <= stated * (1 + 1e-9)
    assert first.stated["measured"] == {distance}
    # MST's score is the largest column of a table, which need not be the one that a record is in.
    assert algorithm == "MST" or max(apart) > 0
