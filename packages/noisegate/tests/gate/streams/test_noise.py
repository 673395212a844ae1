"""The noise of a stream, and what one record moves in all its periods together (G-34)."""

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Pairwise, fit_period, plan_stream, verify
from noisegate.errors import ModelError, OptionError, UserError
from noisegate.gate.streams.session import noise_to_take_back
from noisegate.privacy import accounting, noise
from noisegate.privacy.accounting import continual_sensitivity, total_noise_factor
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.continual_plan import BAND, Horizon
from noisegate.privacy.events import EventError, event_from_json, event_to_json
from noisegate.privacy.grid import UNITS
from noisegate.privacy.plan import Budget

from .conftest import AGES, CODED, FEBRUARY, JANUARY, SETTINGS, records

HORIZONS = [
    Horizon(periods=2),
    Horizon(periods=5),
    Horizon(periods=9, window=3),
    Horizon(),
]


@pytest.mark.parametrize("periods", [1, 2, 3, 24, 48, 300, 1000])
def test_the_factor_is_the_square_root_of_the_matrix_of_totals(periods):
    weights = np.array(Horizon(periods=periods).weights) / 256
    exact = np.cumprod([1.0] + [(2 * j - 1) / (2 * j) for j in range(1, len(weights))])
    assert len(weights) == min(periods, BAND)
    assert np.abs(weights - exact).max() <= 1 / 512
    totals = [
        total_noise_factor(Horizon(periods=periods).weights, t)
        for t in range(1, len(weights) + 1)
    ]
    assert np.allclose(np.square(totals), np.cumsum(exact**2), rtol=0.02)
    assert Horizon(periods=24).overhead(24) < 2.2
    assert Horizon().overhead(24) < 2.2
    assert Horizon().overhead(120) < 3.2


@pytest.mark.parametrize("horizon", HORIZONS, ids=repr)
def test_the_stated_noise_is_that_of_the_matrices(horizon):
    periods = min(horizon.periods, 60)
    weights = horizon.weights
    late = np.subtract.outer(range(periods), range(periods))
    factor = np.where(
        (late >= 0) & (late < len(weights)),
        np.array(weights)[late.clip(0, len(weights) - 1)] / 256,
        0,
    )
    adds = (late >= 0) & (late < (horizon.window or periods))
    spread = np.linalg.norm(adds @ np.linalg.inv(factor), axis=1)
    assert np.allclose([horizon.noise_factor(t) for t in range(1, periods + 1)], spread)


@pytest.mark.parametrize(
    "horizon", [{"periods": 5}, {"periods": 6, "window": 2}], ids=repr
)
def test_every_release_is_the_exact_total_with_the_stated_noise(
    stream, monkeypatch, horizon
):
    tables = [records(200, seed) for seed in range(4)]
    models = stream(*tables, **horizon)
    monkeypatch.setattr(
        noise,
        "add_noise",
        lambda sums, **_: sums + np.random.default_rng(0).integers(0, 4, sums.shape),
    )
    for number, (model, right) in enumerate(
        zip(models, stream(*tables, name="exact", **horizon), strict=True), 1
    ):
        (exact,) = stream(
            pa.concat_tables(
                tables[max(number - horizon.get("window", 9), 0) : number]
            ),
            name=f"of{number}",
        )
        for name in ("pairs", "one-way", "counts"):
            assert np.allclose(
                right.release.values[name], exact.release.values[name], atol=1e-4
            )
        rest = (
            model.release.values["pairs"] - right.release.values["pairs"]
        ) / model.release.noise_std["pairs"]
        # Of 1,350 numbers: five standard deviations, a false alarm in a million runs.
        assert len(rest) > 1300
        assert abs(rest.std() - 1) < 5 / np.sqrt(2 * len(rest))


def test_the_stated_noise_of_a_period_is_that_of_all_that_it_combines(stream):
    """By the inverse of the Toeplitz matrix, whose first column are the factors of fresh noise."""
    models = stream(*(records(60, seed) for seed in range(4)), periods=5)
    stds = [model.release.by_period_std["counts"] for model in models]
    event = next(
        event for event in models[0].certificate.events if event.name == "counts"
    )
    column = np.zeros(5)
    column[: len(event.weights)] = np.array(event.weights) / event.weights[0]
    matrix = np.array(
        [[column[i - j] if i >= j else 0.0 for j in range(5)] for i in range(5)]
    )
    factors = np.linalg.inv(matrix)[:, 0]
    expected = [np.linalg.norm(factors[: period + 1]) for period in range(4)]
    assert np.array(stds) / stds[0] == pytest.approx(expected)
    assert expected[-1] > 1.05


GONE = records(1, seed=9)
NEW = records(1, seed=8)
# In which period a record is given, and is withdrawn. Amended ones become another record, the second of them late. Of a
# misspelt one, which stays as it is, another record is withdrawn.
CASES = {
    "first": (0, None),
    "third": (2, None),
    "withdrawn": (0, 2),
    "amended": (0, 1),
    "late": (1, 3),
}
CASES |= {"misspelt": (0, 1)}


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("case", CASES)
def test_a_record_moves_a_whole_stream_by_at_most_the_stated_sensitivity(
    stream, monkeypatch, case, window
):
    """Exact sums: of two streams that differ by a record, what gets noise differs so, given the same outputs."""
    (given_in, changed) = CASES[case]
    worlds = []
    horizon = {"periods": 4, "window": window, "corrections": changed is not None}
    for world in (False, True):
        seen = []

        def output(sums, seen=seen, **_):
            seen.append(np.array(sums))
            return np.random.default_rng(len(seen)).integers(
                -(2**40), 2**40, sums.shape
            )

        monkeypatch.setattr(noise, "add_noise", output)
        periods = []
        for t in range(4):
            again = {"amended": [NEW], "late": [NEW], "misspelt": [GONE]}.get(case, [])
            more = [GONE] * (t == given_in) + again * (t == changed)
            data = pa.concat_tables([records(20, seed=t), *more * world])
            withdrawn = NEW if case == "misspelt" else GONE
            periods.append((data, withdrawn if world and t == changed else None))
        events = stream(*periods, name=f"world {world}", **horizon)[
            0
        ].certificate.events
        worlds.append(seen)
    for index, event in enumerate(events):
        one, two = (
            np.concatenate([sums.ravel() for sums in world[index :: len(events)]])
            for world in worlds
        )
        square = sum(int(number) ** 2 for number in one - two)
        assert 0 < square <= event.event.sensitivity**2
        if (
            case == "first"
        ):  # and hardly less: rounding toward the grid takes a thousandth part
            assert square > (event.event.sensitivity * 0.997) ** 2


@pytest.mark.parametrize(
    "horizon",
    [{"periods": 24}, {"periods": 24, "window": 3}, {"periods": 5}],
    ids=["all", "window", "few"],
)
def test_whatever_is_withdrawn_is_paid_for(horizon):
    """v in one period, and in another u is given and any w withdrawn: v a + (u - w) b, with columns a and b of C."""
    random = np.random.default_rng(0)
    weights = np.array(Horizon(**horizon).weights) / 256
    query = Pairwise().plan(CODED, Budget(epsilon=1.0)).releases[0].query
    assert query.nonnegative
    worst = {sign: 0.0 for sign in (True, False)}
    for nonnegative, start, later in product(worst, (0, 3), range(len(weights))):
        columns = np.stack(
            [
                np.concatenate([np.zeros(at), weights])[: len(weights)]
                for at in (start, later)
            ]
        )
        candidates = (
            random.normal(size=(300, 3, 3)) ** 3
        )  # now and then nearly one coordinate alone
        candidates = np.concatenate(
            [candidates, np.eye(3)[list(product(range(3), repeat=3))]]
        )
        if nonnegative:
            candidates = np.abs(candidates)
        else:
            candidates[-27:] *= random.choice([-1, 1], (27, 3, 1))
        candidates /= np.linalg.norm(candidates, axis=2, keepdims=True)
        added, amended, withdrawn = candidates.swapaxes(0, 1)
        moved = (
            added[:, None] * columns[0][:, None]
            + (amended - withdrawn)[:, None] * columns[1][:, None]
        )
        worst[nonnegative] = max(
            worst[nonnegative],
            np.square(moved).sum(axis=(1, 2)).max() / (weights @ weights),
        )
    priced = Horizon(**horizon, corrections=True)
    assert 4.99 < worst[True] <= priced.correction_factor(query) + 1e-9
    assert (
        8.99
        < worst[False]
        <= priced.correction_factor(replace(query, nonnegative=False)) + 1e-9
    )


def test_a_plan_that_took_exact_withdrawals_for_granted_goes_on_at_its_price_and_says_so(
    stream, tmp_path
):
    (model,) = stream(JANUARY, schema=AGES, periods=3, corrections=True)
    assert {event.corrected for event in model.certificate.events} == {5}
    facts = model.certificate.stream
    assert (
        "in a later one (what is withdrawn may be any record); epsilon"
        in facts.sentence
    )
    assert facts.condition is None
    plan_stream(
        tmp_path / "old.json",
        schema=AGES,
        epsilon=1.0,
        periods=3,
        corrections=True,
        **SETTINGS,
    )
    stored = json.loads((tmp_path / "old.json").read_text("utf-8"))
    assert stored["stream"].pop("exact_withdrawals") is False
    (tmp_path / "old.json").write_text(json.dumps(stored), encoding="utf-8")
    old, _ = stream(JANUARY, FEBRUARY, name="old")
    assert {event.corrected for event in old.certificate.events} == {3}
    # The text of its certificate.md stays as it was, or those of before would not verify.
    facts = verify(tmp_path / "old1").certificate.stream
    assert (
        "is withdrawn or amended once at most, in a later one; epsilon and delta"
        in facts.sentence
    )
    assert "is, to the bit, the one that was given" in facts.condition
    assert math.isclose(
        old.release.noise_std["counts"] / model.release.noise_std["counts"],
        math.sqrt(3 / 5),
        rel_tol=1e-3,
    )
    with pytest.raises(OptionError, match="is not a period of the stream"):
        fit_period(FEBRUARY, stream=tmp_path / "s.json", after=tmp_path / "old1")


@pytest.mark.parametrize(
    "weights", [(256, -256), (256, 100, 120), (256, 100, -1), (256, 0, 1, 0)]
)
def test_an_event_that_states_3_for_weights_that_do_not_fall_is_refused(weights):
    event = (
        Horizon(periods=9, corrections=True)
        .plan(Pairwise().plan(CODED, Budget(epsilon=1.0)))
        .events[0]
    )
    stated = {**event_to_json(event), "weights": list(weights)}
    assert event_from_json({**stated, "corrected": 5}).corrected == 5
    assert (
        event_from_json(
            {**stated, "corrected": 3, "weights": [256, 256, 1, 0, 0]}
        ).corrected
        == 3
    )
    with pytest.raises(EventError, match="corrected=3 is proved for weights that fall"):
        event_from_json({**stated, "corrected": 3})
    with pytest.raises(EventError, match="corrected=3 is proved for weights that fall"):
        replace(event, weights=weights, corrected=3)


@pytest.mark.parametrize("periods", range(2, 49))
def test_the_stated_sensitivity_is_that_of_the_rounded_matrix_and_of_rounded_noise(
    periods,
):
    random = np.random.default_rng(periods)
    weights = Horizon(periods=periods).weights
    vector = np.array(
        [UNITS * 4 // 5, *[UNITS * 3 // 50 + 1 - 2 * (at % 2) for at in range(99)]]
    )
    vector[1:] = vector[1:] * (UNITS * 3 / 5) // np.linalg.norm(vector[1:])
    assert np.linalg.norm(vector) <= UNITS
    held = [random.integers(-(2**40), 2**40, vector.shape) for _ in weights]
    square = float(vector @ vector)
    for later in range(
        1, periods
    ):  # of the record's own period the noise is known to be less by its vector
        other = [*held[: later - 1], held[later - 1] - vector]
        square += float(
            np.square(
                (
                    noise_to_take_back(weights, other)
                    - noise_to_take_back(weights, held[:later])
                ).astype(float)
            ).sum()
        )
    assert square**0.5 <= continual_sensitivity(weights, UNITS, 1, len(vector))


@pytest.mark.parametrize(
    "horizon",
    [{"periods": 24}, {}, {"periods": 12, "window": 3, "corrections": True}],
    ids=repr,
)
def test_a_stream_costs_what_was_asked_and_an_event_that_states_less_is_refused(
    horizon,
):
    plan = Horizon(**horizon).plan(Pairwise().plan(CODED, Budget(epsilon=1.0)))
    assert 0.9999 < plan.epsilon <= 1
    for event in plan.events:
        assert event_from_json(event_to_json(event)) == event
        ones = (256,) * len(event.weights)
        less = event.event.sensitivity * 0.999
        for wrong in (
            {"record": 2 * event.record},
            {"weights": ones},
            {"corrected": 2},
            {"event": replace(event.event, sensitivity=less)},
        ):
            with pytest.raises(
                UserError,
                match=r"its matrix has a sensitivity of|corrected=2, mean nothing",
            ):
                accounting.epsilon([replace(event, **wrong)], 1e-5)


def test_a_certificate_says_how_far_its_stream_has_come(stream):
    certificate = stream(records(50), periods=3)[0].certificate.to_json()
    for wrong in (
        {"period": 4},
        {"periods": 2},
        {"window": 0},
        {"corrections": True},
        {"period": "1"},
    ):
        stated = {
            **certificate["public"],
            "stream": {**certificate["public"]["stream"], **wrong},
        }
        with pytest.raises(
            ModelError, match="does not say how far its stream has come"
        ):
            _ = Certificate.from_json({**certificate, "public": stated}).stream
