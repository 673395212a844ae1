"""The noise of a stream, and what one record moves in all its periods together (G-34)."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Pairwise
from noisegate.errors import ModelError, UserError
from noisegate.privacy import accounting, noise
from noisegate.privacy.accounting import continual_sensitivity, prefix_noise
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import event_from_json, event_to_json
from noisegate.privacy.grid import UNITS
from noisegate.privacy.plan import Budget
from noisegate.streams.plans import BAND, Horizon
from noisegate.streams.session import taken_back

from .conftest import CODED, records

HORIZONS = [Horizon(periods=2), Horizon(periods=5), Horizon(periods=9, window=3), Horizon()]


@pytest.mark.parametrize("periods", [1, 2, 3, 24, 48, 300, 1000])
def test_the_factor_is_the_square_root_of_the_matrix_of_totals(periods):
    weights = np.array(Horizon(periods=periods).weights) / 256
    exact = np.cumprod([1.0] + [(2 * j - 1) / (2 * j) for j in range(1, len(weights))])
    assert len(weights) == min(periods, BAND) and np.abs(weights - exact).max() <= 1 / 512
    totals = [prefix_noise(Horizon(periods=periods).weights, t) for t in range(1, len(weights) + 1)]
    assert np.allclose(np.square(totals), np.cumsum(exact**2), rtol=0.02)
    assert Horizon(periods=24).overhead(24) < 2.2 and Horizon().overhead(24) < 2.2 and Horizon().overhead(120) < 3.2


@pytest.mark.parametrize("horizon", HORIZONS, ids=repr)
def test_the_stated_noise_is_that_of_the_matrices(horizon):
    periods, weights = min(horizon.periods, 60), horizon.weights
    late = np.subtract.outer(range(periods), range(periods))
    factor = np.where((late >= 0) & (late < len(weights)), np.array(weights)[late.clip(0, len(weights) - 1)] / 256, 0)
    adds = (late >= 0) & (late < (horizon.window or periods))
    spread = np.linalg.norm(adds @ np.linalg.inv(factor), axis=1)
    assert np.allclose([horizon.noise(t) for t in range(1, periods + 1)], spread)


@pytest.mark.parametrize("horizon", [{"periods": 5}, {"periods": 6, "window": 2}], ids=repr)
def test_every_release_is_the_exact_total_with_the_stated_noise(stream, monkeypatch, horizon):
    tables = [records(200, seed) for seed in range(4)]
    made = stream(*tables, **horizon)
    monkeypatch.setattr(
        noise, "add_noise", lambda sums, **_: sums + np.random.default_rng(0).integers(0, 4, sums.shape)
    )
    for number, (found, right) in enumerate(zip(made, stream(*tables, name="exact", **horizon), strict=True), 1):
        (exact,) = stream(
            pa.concat_tables(tables[max(number - horizon.get("window", 9), 0) : number]), name=f"of{number}"
        )
        for name in ("pairs", "one-way", "counts"):
            assert np.allclose(right.release.values[name], exact.release.values[name], atol=1e-4)
        rest = (found.release.values["pairs"] - right.release.values["pairs"]) / found.release.noise_std["pairs"]
        # Of 1,350 numbers: five standard deviations, a false alarm in a million runs.
        assert len(rest) > 1300 and abs(rest.std() - 1) < 5 / np.sqrt(2 * len(rest))


GONE, NEW = records(1, seed=9), records(1, seed=8)
# In which period a record is given, and is withdrawn; the last two become another one, and the last is late.
CASES = {"first": (0, None), "third": (2, None), "withdrawn": (0, 2), "amended": (0, 1), "late": (1, 3)}


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("case", CASES)
def test_a_record_moves_a_whole_stream_by_at_most_the_stated_sensitivity(stream, monkeypatch, case, window):
    """Exact sums: of two streams that differ by a record, what gets noise differs so, given the same outputs."""
    (given, changed), worlds = CASES[case], []
    horizon = {"periods": 4, "window": window, "corrections": changed is not None}
    for world in (False, True):
        seen = []

        def output(sums, seen=seen, **_):
            seen.append(np.array(sums))
            return np.random.default_rng(len(seen)).integers(-(2**40), 2**40, sums.shape)

        monkeypatch.setattr(noise, "add_noise", output)
        periods = []
        for t in range(4):
            more = [GONE] * (t == given) + [NEW] * (t == changed and case in ("amended", "late"))
            data = pa.concat_tables([records(20, seed=t), *more * world])
            periods.append((data, GONE if world and t == changed else None))
        events = stream(*periods, name=f"world {world}", **horizon)[0].certificate.events
        worlds.append(seen)
    for place, event in enumerate(events):
        one, two = (np.concatenate([sums.ravel() for sums in world[place :: len(events)]]) for world in worlds)
        square = sum(int(number) ** 2 for number in one - two)
        assert 0 < square <= event.sensitivity**2
        if case == "first":  # and hardly less: rounding toward the grid takes a thousandth part
            assert square > (event.sensitivity * 0.997) ** 2


@pytest.mark.parametrize("periods", range(2, 49))
def test_the_stated_sensitivity_is_that_of_the_rounded_matrix_and_of_rounded_noise(periods):
    random, weights = np.random.default_rng(periods), Horizon(periods=periods).weights
    vector = np.array([UNITS * 4 // 5, *[UNITS * 3 // 50 + 1 - 2 * (at % 2) for at in range(99)]])
    vector[1:] = vector[1:] * (UNITS * 3 / 5) // np.linalg.norm(vector[1:])
    assert np.linalg.norm(vector) <= UNITS
    held, square = [random.integers(-(2**40), 2**40, vector.shape) for _ in weights], float(vector @ vector)
    for later in range(1, periods):  # of the record's own period the noise is known to be less by its vector
        other = [*held[: later - 1], held[later - 1] - vector]
        square += float(np.square((taken_back(weights, other) - taken_back(weights, held[:later])).astype(float)).sum())
    assert square**0.5 <= continual_sensitivity(weights, UNITS, 1, len(vector))


@pytest.mark.parametrize("horizon", [{"periods": 24}, {}, {"periods": 12, "window": 3, "corrections": True}], ids=repr)
def test_a_stream_costs_what_was_asked_and_an_event_that_states_less_is_refused(horizon):
    made = Horizon(**horizon).plan(Pairwise().plan(CODED, Budget(epsilon=1.0)))
    assert 0.9999 < made.epsilon <= 1
    for event in made.events:
        assert event_from_json(event_to_json(event)) == event
        ones, less = (256,) * len(event.weights), event.sensitivity * 0.999
        for wrong in ({"record": 2 * event.record}, {"weights": ones}, {"corrected": 2}, {"sensitivity": less}):
            with pytest.raises(UserError, match=r"its matrix has a sensitivity of|corrected=2, mean nothing"):
                accounting.epsilon([replace(event, **wrong)], 1e-5)


def test_a_certificate_says_how_far_its_stream_has_come(stream):
    certificate = stream(records(50), periods=3)[0].certificate.to_json()
    for wrong in ({"period": 4}, {"periods": 2}, {"window": 0}, {"corrections": True}, {"period": "1"}):
        stated = {**certificate["public"], "stream": {**certificate["public"]["stream"], **wrong}}
        with pytest.raises(ModelError, match="does not say how far its stream has come"):
            _ = Certificate.from_json({**certificate, "public": stated}).stream
