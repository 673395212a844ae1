"""One period after the other: what is refused, what a run that was stopped gives again, and what is booked."""

import contextlib
import json
import math
import os
import secrets
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from tests import randomness

from noisegate import Ledger, Pairwise, fit_period, plan_stream, verify
from noisegate.errors import BudgetRefusedError, ModelError, OptionError, UserError
from noisegate.gate.streams.session import noise_to_take_back
from noisegate.ledger.accounts import ClosedError
from noisegate.privacy import accounting, noise
from noisegate.privacy.accounting import continual_sensitivity, total_noise_factor
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.continual_plan import BAND, Horizon
from noisegate.privacy.events import EventError, event_from_json, event_to_json
from noisegate.privacy.grid import UNITS
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release

from .conftest import AGES, CODED, SETTINGS, records

JANUARY, FEBRUARY, EMPTY = (
    records(300, 1, AGES),
    records(300, 2, AGES),
    records(0, 3, AGES),
)


def test_periods_add_up_under_the_cells_of_the_first(stream, tmp_path):
    told = {"schema": AGES, "periods": 4, "epsilon": 50.0, "corrections": True}
    models = stream(JANUARY, (FEBRUARY, JANUARY.slice(0, 100)), EMPTY, EMPTY, **told)
    counts = [float(model.release.values["counts"].sum()) for model in models]
    assert np.allclose(counts, [300, 500, 500, 500], atol=25)
    fixed = [model.certificate.public["fixed"] for model in models]
    assert fixed[0]["cuts"]
    assert fixed == fixed[:1] * 4
    assert models[-1].certificate.stream.period == 4
    told = models[-1].release
    assert told.by_period["counts"].shape == (2, 4)
    assert np.allclose(
        told.by_period["counts"].sum(axis=1, keepdims=True), told.values["counts"]
    )
    loaded = Release.load(tmp_path / "s4")
    assert (
        set(loaded.values)
        == set(told.values)
        == {event.name for event in loaded.certificate.events}
    )
    assert np.array_equal(loaded.by_period["counts"], told.by_period["counts"])
    assert loaded.by_period_std == told.by_period_std
    assert verify(tmp_path / "s4").recomputed_epsilon <= 50
    assert len(models[-1].sample(5)) == 5
    held = (tmp_path / "s.private").glob("*.npz")
    assert not any(
        "noise" in np.load(path) for path in held
    )  # after the last period nothing takes noise back


def test_noise_that_no_later_period_takes_back_is_erased(stream, tmp_path, monkeypatch):
    monkeypatch.setattr("noisegate.privacy.continual_plan.BAND", 2)
    stream(JANUARY, FEBRUARY, EMPTY, schema=AGES, periods=9)
    held = sorted((tmp_path / "s.private").glob("*.counts.npz"))
    assert ["noise" in np.load(path) for path in held] == [False, False, True]


def test_a_period_has_one_answer_and_its_records_no_second_one(
    stream, tmp_path, monkeypatch
):
    first, second = stream(JANUARY, FEBRUARY, schema=AGES, periods=5)
    monkeypatch.setattr(
        noise, "add_noise", lambda *_, **__: pytest.fail("noise was drawn again")
    )
    shutil.rmtree(tmp_path / "s2")
    (again,) = stream(FEBRUARY.take(list(range(300))[::-1]), start=2)
    assert all(
        np.array_equal(again.release.values[name], value)
        for name, value in second.release.values.items()
    )
    for data, start, why in (
        (JANUARY, 3, "these are the records of period 1"),
        (FEBRUARY.slice(1), 2, "period 2 was answered with other records"),
        (EMPTY, 1, "2 of its periods have their records, and this would be period 1"),
        ((EMPTY, JANUARY), 3, "does not pay for corrections"),
    ):
        shutil.rmtree(tmp_path / f"s{start}", ignore_errors=True)
        with pytest.raises(OptionError, match=why):
            stream(data, start=start)
        again.save(tmp_path / "s2") if start == 2 else None
        first.save(tmp_path / "s1") if start == 1 else None
    shutil.rmtree(tmp_path / "s.private")
    with pytest.raises(OptionError, match="missing or empty: it lay beside the plan"):
        stream(EMPTY, start=3)


def test_what_a_stream_cannot_be_is_said(tmp_path, stream):
    plan = {"path": tmp_path / "p.json", "schema": AGES, "epsilon": 1.0}
    with pytest.raises(OptionError, match="does not ask in rounds of sums"):
        plan_stream(**plan, method="privbayes", periods=3)
    for wrong in (
        {"periods": 0},
        {"periods": 1001},
        {"periods": 3, "window": 4},
        {"window": True},
    ):
        with pytest.raises(OptionError, match="must be a whole number from 1 to"):
            plan_stream(**plan, **wrong)
    with pytest.raises(OptionError, match="exists; choose another name"):
        plan_stream(**plan, periods=3), plan_stream(**plan, periods=3)
    stream(JANUARY, periods=1, schema=AGES)
    with pytest.raises(OptionError, match="planned for 1 periods, and has all of them"):
        stream(FEBRUARY, start=2)
    with pytest.raises(OptionError, match="is not a period of the stream"):
        fit_period(FEBRUARY, stream=plan["path"], after=tmp_path / "s1")
    (tmp_path / "p.json").replace(tmp_path / "s.json")
    with pytest.raises(OptionError, match="is of another plan"):
        fit_period(JANUARY, stream=tmp_path / "s.json")
    (tmp_path / "s.json").write_text("{}")
    with pytest.raises(ModelError, match="not a published plan"):
        fit_period(FEBRUARY, stream=tmp_path / "s.json")


def test_a_stream_is_one_entry_of_the_ledger(stream, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.register("registry", epsilon=1.0, delta=1e-5)
    booked = {"ledger": ledger, "dataset": "registry"}
    stream(JANUARY, schema=AGES, periods=2, booked=booked)
    assert ledger.show("registry")[0].reserved == 1
    (last,) = stream(FEBRUARY, start=2)  # finds its reservation by itself
    account, history = ledger.show("registry")[0], ledger.history("registry")
    assert account.reserved == 0
    assert account.committed == 1
    assert account.spent <= 1
    assert [entry.kind.value for entry in history] == [
        "register",
        "reserve",
        "confirm",
        "commit",
    ]
    assert history[1].purpose == "pairwise, 2 periods"
    assert history[-1].certificate == last.certificate.digest()
    with pytest.raises(BudgetRefusedError):
        stream(JANUARY, name="another", schema=AGES, periods=2, booked=booked)


ALONE = "NOISEGATE_TEST_ALONE"
STAGES = (
    *(
        f"noisegate.ledger.ledger:Ledger.{name}"
        for name in ("reserve", "confirm", "commit")
    ),
    *(f"os:{name}" for name in ("fsync", "link", "replace", "mkdir")),
    *(
        f"noisegate.gate.streams.state:StreamState.{name}"
        for name in ("write_answer", "write_ledger_entry", "erase_secrets_until")
    ),
    *(f"noisegate.app.runs.folder:RunFolder.{name}" for name in ("keep", "remove")),
    *(
        "noisegate.privacy.noise:add_noise",
        "noisegate.models.synthesizer:Synthesizer.save",
    ),
)


def killed(work, at, after):
    """Runs `work` in a process of its own, which kills itself at call number `at`; returns whether it came so far."""
    if pid := os.fork():
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    try:
        secrets.token_bytes, noise._discrete_gaussian = (
            randomness._TOKEN_BYTES,
            randomness._DISCRETE,
        )
        calls = iter(range(at))
        for module, _, name in (stage.partition(":") for stage in STAGES):
            owner, _, last = name.rpartition(".")
            holder = (
                getattr(import_module(module), owner)
                if owner
                else import_module(module)
            )
            setattr(holder, last, counting(getattr(holder, last), calls, after=after))
        work()
    finally:
        os._exit(0)


def counting(right, calls, *, after):
    def counted(*arguments, **options):
        done = right(*arguments, **options) if after else None
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return done if after else right(*arguments, **options)

    return counted


def plays(stream, tmp_path, stages):
    """Kills each period at every stage, before and after it, and plays it again; returns how often that was."""
    ledger, count = Ledger(tmp_path / "ledger.sqlite"), 0
    for at, after in product(stages, (False, True)):
        name = f"run {at} {after} "
        ledger.register(name, epsilon=1.0, delta=1e-5)
        booked, state = (
            {"ledger": ledger.path, "dataset": name},
            tmp_path / f"{name}.private",
        )
        for period, data in enumerate((JANUARY, FEBRUARY, EMPTY), 1):
            options = {
                "start": period,
                "name": name,
                "schema": AGES,
                "periods": 3,
                "booked": booked,
            }
            play = partial(stream, data, **options)
            if not killed(play, at, after):
                continue
            count += 1
            answered = {path: np.load(path)["noisy"] for path in state.glob("*.npz")}
            for left in tmp_path.glob(f"{name}{period}*"):
                shutil.rmtree(left)
            known_entry = (
                (state / "booked.json").read_text()
                if (state / "booked.json").exists()
                else ""
            )
            # Killed before the stream knew its reservation: a person gives that back.
            for lost in {
                entry.reservation or known_entry for entry in ledger.history(name)
            } - {known_entry}:
                with contextlib.suppress(ClosedError):
                    _ = lost in known_entry or ledger.void(lost, reason="killed")
            play()
            assert ledger.show(name)[0].spent <= 1
            assert all(
                np.array_equal(np.load(path)["noisy"], noisy)
                for path, noisy in answered.items()
            )
        total = Release.load(tmp_path / f"{name}3").values["one-way"].ravel()
        each = [
            np.load(state / f"{period:04}.one-way.npz")["noisy"].ravel()
            for period in (1, 2, 3)
        ]
        assert np.allclose(sum(each) * total[0], sum(each)[0] * total, rtol=1e-12)
    return count


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="processes are killed by the ways of POSIX"
)
@pytest.mark.parametrize(
    ("stages", "least"),
    [((6, 17), 4), pytest.param(range(60), 200, marks=pytest.mark.slow)],
)
def test_killed_at_any_stage_a_period_has_one_answer(
    stream, tmp_path, stages, least, request
):
    if ALONE in os.environ:
        assert plays(stream, tmp_path, stages) >= least
        return
    # In a process of its own: what is forked from one with many threads may hang.
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    } | {ALONE: "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        request.node.nodeid,
    ]
    done = subprocess.run(
        command,
        cwd=request.config.rootpath,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


# The noise of a stream, and what one record moves in all its periods together (G-34).

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
    periods, weights = min(horizon.periods, 60), horizon.weights
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


GONE, NEW = records(1, seed=9), records(1, seed=8)
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
    (given_in, changed), worlds = CASES[case], []
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
    random, weights = (
        np.random.default_rng(0),
        np.array(Horizon(**horizon).weights) / 256,
    )
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
    random, weights = np.random.default_rng(periods), Horizon(periods=periods).weights
    vector = np.array(
        [UNITS * 4 // 5, *[UNITS * 3 // 50 + 1 - 2 * (at % 2) for at in range(99)]]
    )
    vector[1:] = vector[1:] * (UNITS * 3 / 5) // np.linalg.norm(vector[1:])
    assert np.linalg.norm(vector) <= UNITS
    held, square = (
        [random.integers(-(2**40), 2**40, vector.shape) for _ in weights],
        float(vector @ vector),
    )
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
        ones, less = (256,) * len(event.weights), event.event.sensitivity * 0.999
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
