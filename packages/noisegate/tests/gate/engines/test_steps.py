"""Steps on a cluster: each worker draws for the records that it holds, whoever is lost; Ray is played here."""

import pickle
import threading

import numpy as np
import pytest
import torch
from tests.shared.played import dying
from tests.shared.stated import kinds
from tests.shared.steps import SCHEMA, SHAPES, Folded, frame, loss

from noisegate import Gate
from noisegate.errors import DataError, OptionError
from noisegate.gate.engines.ray import MIN_PARTS_PER_WORKER, RayEngine
from noisegate.gate.samples import HeldGradients
from noisegate.gate.sums import LocalEngine
from noisegate.ledger.ledger import Kind
from noisegate.privacy.gradient_plan import GradientQuery, plan_steps, steps_of
from noisegate.privacy.grid import UNITS
from noisegate.privacy.plan import Query
from noisegate.privacy.shard_plan import BatchQuery
from noisegate.queries.feature_map import Counts
from noisegate.sources import TableSource
from noisegate.sources.units import UnitLimit

CAP = 100.0
AT = {"w": torch.tensor([0.3, -0.2, 0.1]), "bias": torch.tensor(0.5)}
ROWS = 211
TWO = RayEngine(workers=2)


@pytest.fixture
def data(tmp_path):
    frame(ROWS).to_csv(tmp_path / "x.csv", index=False)
    return tmp_path / "x.csv"


def opened(
    data,
    engine,
    *,
    steps=3,
    rate=0.5,
    norm=1.0,
    queries=(),
    loss=loss,
    options=None,
    **session,
):
    gate = Gate(data, schema=SCHEMA, epsilon=90.0, engine=engine, **(options or {}))
    settings = {
        "steps": steps,
        "sampling_probability": rate,
        "clip_norm": norm,
        "queries": queries,
    }
    plan = plan_steps(
        gate.budget, GradientQuery(name="g", parameters=SHAPES, **settings)
    )
    return gate.gradients(plan, loss, method="test", public={}, **session)


def expected(session, parts, steps):
    """What the steps of a session come to over parts, by one process that holds them all."""
    held = HeldGradients(session._steps.held_records.held_pass._job._task)
    for number, part in enumerate(parts):
        held.add_part(number, part)
    return [held.total(step, AT).tolist() for step in range(steps)]


def parts_of(engine, data, workers=3):
    source = TableSource(data, SCHEMA)
    parts = list(source.split_into_parts(engine.part_bytes, 1))
    return (
        parts
        if len(parts) >= MIN_PARTS_PER_WORKER * workers
        else list(source.split_into_shares(workers, splits_batches=True))
    )


# Each worker has a share of every batch, or parts of the file.
@pytest.mark.parametrize(
    ("part_bytes", "represent"),
    [(1 << 25, None), (300, Folded())],
    ids=["shares", "parts"],
)
def test_all_records_add_what_they_add_on_one_machine(
    part_bytes, represent, joined, data, exactly
):
    engine = RayEngine(part_bytes=part_bytes)
    with opened(data, engine, rate=1.0, represent=represent, steps=1) as there:
        noisy_sum = there.step(AT).tolist()
    with opened(
        data, LocalEngine(threads=1), rate=1.0, represent=represent, steps=1
    ) as here:
        assert noisy_sum == here.step(AT).tolist()
    assert joined.hired == 3
    assert not joined.alive


@pytest.mark.parametrize("part_bytes", [1 << 25, 300])
def test_samples_are_drawn_for_each_record_of_each_part(
    part_bytes, joined, data, exactly
):
    engine = RayEngine(part_bytes=part_bytes)
    with opened(data, engine) as session:
        noisy_sums = [session.step(AT).tolist() for _ in range(3)]
        assert noisy_sums == expected(session, parts_of(engine, data), 3)
        assert (
            session._steps.held_records.held_pass._job._task.samples.rate
            == steps_of(session.plan).event.rate
        )
    assert (
        len({tuple(noisy_sum) for noisy_sum in noisy_sums}) == 3
    )  # each has a sample of its own


def test_one_record_moves_a_step_of_workers_by_the_bound_at_most(
    joined, tmp_path, exactly
):
    def loud(parameters, numeric, codes):
        return (
            1e6 * (parameters["w"] * (numeric - 0.3)).sum() + parameters["bias"] * 1e5
        )

    def total(rows, name):
        frame(40).iloc[rows].to_csv(tmp_path / name, index=False)
        with opened(tmp_path / name, TWO, rate=1.0, steps=1, loss=loud) as session:
            return session.step(AT)

    whole = total(range(40), "all.csv")
    for left_out in (0, 39):
        difference = whole - total(
            [i for i in range(40) if i != left_out], f"{left_out}.csv"
        )
        assert 0.99 * UNITS < np.linalg.norm(difference) <= UNITS


def test_every_session_has_a_key_of_its_own_which_nobody_is_told(
    joined, data, tmp_path
):
    keys = []
    drawn = []
    journal = tmp_path / "steps.journal"
    for _ in range(2):
        with opened(data, TWO, journal=journal) as session:
            session.step(AT)
            keys.append(session._steps.samples.key)
            drawn.append(session._steps.samples.indices(64, 0).tolist())
    written = journal.read_bytes()
    with opened(data, TWO, journal=journal) as resumed:
        assert resumed.remaining_steps == 1
        resumed.step(AT)
        written += str(resumed.release(AT).certificate.to_json()).encode()
    assert keys[0] != keys[1]
    assert drawn[0] != drawn[1]
    assert all(key not in written and key.hex().encode() not in written for key in keys)


@pytest.mark.parametrize(
    (
        "part_bytes",
        "name",
        "which",
        "when",
    ),  # before: it has done nothing; after: the answer alone was lost
    [
        (1 << 25, "totals", 4, "before"),
        (300, "totals", 8, "after"),
        (300, "add", 1, "before"),
        (300, "add", 1, "after"),
        (300, "begin", 2, "before"),
    ],
)
def test_a_lost_worker_changes_no_step(
    part_bytes, name, which, when, joined, data, exactly
):
    joined.dies = dying(name, which, when)
    engine = RayEngine(part_bytes=part_bytes)
    with opened(data, engine) as session:
        noisy_sums = [session.step(AT).tolist() for _ in range(3)]
        assert noisy_sums == expected(session, parts_of(engine, data), 3)
    assert joined.hired == 4
    assert not joined.alive


def test_a_step_that_ends_every_worker_is_given_up_and_stays_spent(
    joined, data, ledger
):
    with opened(
        data, RayEngine(workers=1), options={"ledger": ledger, "dataset": "clinic"}
    ) as session:
        session.step(AT)
        joined.dies = lambda called, *_: "before" if called == "totals" else None
        with pytest.raises(DataError, match="4 workers were lost"):
            session.step(AT)
        with pytest.raises(OptionError, match="ended"):
            session.step(AT)
    assert not joined.alive
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM]


def test_nothing_but_counts_and_totals_comes_back(joined, data):
    with opened(data, TWO) as session:
        session.step(AT)
    kinds = {
        tuple(map(type, answer)) if isinstance(answer, tuple) else type(answer)
        for answer in joined.answers
    }
    assert kinds == {str, int, (dict, np.ndarray)}
    assert {
        answer[1].shape for answer in joined.answers if isinstance(answer, tuple)
    } == {(4,)}


def test_what_goes_wrong_in_a_worker_is_told_without_records(joined, data):
    def broken(parameters, numeric, codes):
        return (
            loss(parameters, numeric, codes)
            if parameters["bias"].numel() == 1
            else None
        )

    with opened(data, TWO, loss=broken) as session:
        session.step(AT)
        for actor in session._steps.held_records.held_pass._pool.actors:
            actor.instance._job._task.gradients.compute_gradients = lambda *_: 1 / 0
        with pytest.raises(
            RuntimeError, match=r"^ZeroDivisionError in a worker, \w+\.py, line \d+$"
        ):
            session.step(AT)
    assert not joined.alive


def test_a_worker_that_computes_in_another_way_is_refused_before_it_reads(
    joined, data, monkeypatch
):
    monkeypatch.setattr(
        "noisegate.gate.engines.ray_round.Worker.begin", lambda *_: "another"
    )
    with (
        opened(data, TWO) as session,
        pytest.raises(OptionError, match="another processor"),
    ):
        session.step(AT)
    assert not any(isinstance(answer, int) for answer in joined.answers)
    assert not joined.alive


@pytest.mark.parametrize("stop", [KeyboardInterrupt, DataError("x.csv, line 7")])
def test_a_run_that_is_stopped_leaves_no_worker_behind(stop, joined, data):
    def tell(_):
        raise stop

    with (
        opened(data, TWO, options={"progress": tell}) as session,
        pytest.raises(stop if isinstance(stop, type) else type(stop)),
    ):
        session.step(AT)
    assert joined.hired == 2
    assert not joined.alive


def test_questions_are_asked_before_between_and_after_steps(joined, data, exactly):
    queries = tuple(
        Query.of(name, Counts(), columns=2, share=0.5)
        for name in ("one", "two", "three")
    )
    with opened(data, TWO, queries=queries) as session:
        counts = [session.ask({"one": Counts()})["one"]]
        noisy_sums = [session.step(AT).tolist()]
        counts.append(
            session.ask({"two": Counts()})["two"]
        )  # the workers let go of what they hold, and read again
        noisy_sums += [session.step(AT).tolist(), session.step(AT).tolist()]
        assert joined.alive
        counts.append(session.ask({"three": Counts()})["three"])
        assert not joined.alive
        assert noisy_sums == expected(session, parts_of(TWO, data, workers=2), 3)
    assert joined.hired == 2
    assert {count.sum() for count in counts} == {float(ROWS)}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_units_count_once(kind, joined, tmp_path, exactly):
    table = frame(ROWS)
    table["patient"] = np.random.default_rng(1).integers(0, 90, ROWS)
    table.to_csv(tmp_path / "x.csv", index=False)
    table.to_parquet(tmp_path / "x.parquet", row_group_size=20)
    options = {"unit_column": "patient", "contributions": 1}
    noisy_sums = []
    for engine in (RayEngine(part_bytes=300), LocalEngine(threads=1)):
        with opened(
            tmp_path / f"x.{kind}", engine, rate=1.0, options=options
        ) as session:
            noisy_sums.append(
                (session.step(AT).tolist(), session._steps.held_records.record_count)
            )
    assert noisy_sums[0] == noisy_sums[1]
    assert noisy_sums[0][1] == table["patient"].nunique()
    with pytest.raises(OptionError, match="contributions=2"):
        opened(tmp_path / "x.csv", TWO, options=options | {"contributions": 2})
    shares = list(
        TableSource(
            tmp_path / "x.csv",
            SCHEMA,
            units=UnitLimit(column="patient", contributions=1),
        ).split_into_shares(2)
    )
    assert (
        sum(len(read()) for part in shares for read in part.batch_readers())
        == noisy_sums[0][1]
    )


def test_the_number_of_records_is_checked_where_it_is_public(joined, data):
    options = {"adjacency": "replace-one", "records": ROWS - 1}
    with (
        opened(data, TWO, options=options) as session,
        pytest.raises(DataError, match=f"records={ROWS - 1}"),
    ):
        session.step(AT)
    with opened(data, TWO, options={**options, "records": ROWS}) as session:
        session.step(AT)
    (data.parent / "empty.csv").write_text("a,b,c,ill\n")
    with (
        opened(data.parent / "empty.csv", TWO) as session,
        pytest.raises(DataError, match="no records"),
    ):
        session.step(AT)
    assert not joined.alive


def test_what_workers_cannot_do_is_refused_before_anything_is_spent(joined, data):
    with pytest.raises(OptionError, match=r"device='cuda'.*give device='cpu'"):
        opened(data, TWO, device="cuda")
    gate = Gate(data, schema=SCHEMA, epsilon=90.0, engine=TWO)
    plan = BatchQuery(
        name="b",
        steps=2,
        sampling_probability=0.5,
        clip_norm=1.0,
        parameters={"w": (2,)},
    )
    with pytest.raises(OptionError, match="more than sums"):
        gate.batch(
            plan_steps(gate.budget, plan),
            lambda *_: {"w": np.zeros(2)},
            method="test",
            public={},
        )
    with pytest.raises(OptionError, match="table in memory"):
        opened(frame(ROWS), TWO)
    joined.put = lambda job: pickle.dumps(threading.Lock())
    with (
        opened(data, TWO) as session,
        pytest.raises(OptionError, match=r"cannot be sent to workers \(TypeError\)"),
    ):
        session.step(AT)
    assert not joined.hired
