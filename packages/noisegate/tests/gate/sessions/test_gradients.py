"""Sessions of gradients: paid before they read, as many steps as were paid for, nothing but noisy sums comes out."""

import numpy as np
import pytest
import torch
from tests.shared.stated import kinds
from tests.shared.steps import SCHEMA, SHAPES, START, frame, loss, mix

from noisegate.errors import DataError, OptionError
from noisegate.gate import samples
from noisegate.gate.gate import Gate
from noisegate.gate.per_example.gradients import (
    FactoredLoss,
    module_loss,
)
from noisegate.ledger.ledger import Kind
from noisegate.models.folder import verify_model, write_model
from noisegate.privacy.gradient_plan import GradientQuery, plan_steps, steps_of
from noisegate.privacy.plan import Query
from noisegate.queries.feature_map import Counts

CAP = 100.0


def plan_of(**options):
    options = {
        "steps": 4,
        "sampling_probability": 0.5,
        "clip_norm": 1.0,
        "parameters": SHAPES,
        **options,
    }
    return GradientQuery(name="gradients", **options)


def opened(data=None, plan=None, *, loss=loss, epsilon=90.0, options=None, **session):
    gate = Gate(
        frame() if data is None else data,
        schema=SCHEMA,
        epsilon=epsilon,
        **(options or {}),
    )
    calibrated = plan_steps(gate.budget, plan or plan_of())
    return gate.gradients(
        calibrated, loss, **{"method": "test", "public": {"why": "a test"}, **session}
    )


def test_a_step_is_the_clipped_sum_and_noise_of_the_planned_size(monkeypatch):
    taken = np.arange(0, 80, 3)
    monkeypatch.setattr(samples, "poisson_sample", lambda records, rate, _: taken)
    records = (
        2
        * torch.tensor(
            ((frame()[["a", "b", "c"]].to_numpy() + 1) / 2).astype(np.float32)
        )
        - 1
    )
    residual = 0.5 - torch.tensor(frame().ill.to_numpy(), dtype=torch.float32)
    exact = torch.cat([records * residual[:, None], residual[:, None]], dim=1)[taken]
    exact *= torch.clamp(0.4 / exact.norm(dim=1, keepdim=True), max=1)
    with opened(plan=plan_of(steps=300, clip_norm=0.4), epsilon=50.0) as session:
        std = steps_of(session.plan).noise_std_natural
        steps = [session.step(START) for _ in range(300)]
    noise = (
        np.array([[*step["w"].tolist(), float(step["bias"])] for step in steps])
        - exact.sum(0).numpy()
    )
    # 1200 draws: off by an eighth less than once in 1e9 runs. Clipping on the grid shortens by up to 0.2 %.
    assert np.sqrt(np.square(noise).mean()) == pytest.approx(std, rel=0.125)
    assert np.abs(noise.mean(axis=0)).max() < 7 * std / np.sqrt(
        300
    ) + 0.002 * 0.4 * len(taken)


def test_an_empty_sample_is_noised_like_any_other(monkeypatch):
    monkeypatch.setattr(
        samples, "poisson_sample", lambda records, rate, _: np.zeros(0, dtype=np.intp)
    )
    with opened(plan=plan_of(steps=2)) as session:
        first = session.step(START)
        second = session.step(START)
    values = torch.stack([first["w"], second["w"]])
    assert torch.isfinite(values).all()
    assert len(set(values.flatten().tolist())) == 6
    assert values.abs().max() < 10 * steps_of(session.plan).noise_std_natural


def test_every_step_draws_a_new_sample_of_all_records(monkeypatch):
    draws = []
    monkeypatch.setattr(
        samples,
        "poisson_sample",
        lambda records, rate, _: draws.append((records, rate)) or np.arange(3),
    )
    with opened(plan=plan_of(steps=3, sampling_probability=0.3)) as session:
        for _ in range(3):
            session.step(START)
    assert draws == [(80, steps_of(session.plan).query.sampling_probability)] * 3
    assert (
        steps_of(session.plan).query.sampling_probability
        == steps_of(session.plan).event.rate
    )


def test_a_factored_loss_gives_the_sums_that_the_plain_one_gives(everyone):
    weight = torch.tensor([[[0.3, -0.2, 0.8]], [[0.1, 0.0, -0.5]]])

    def inputs(numeric, codes):
        return torch.stack([2 * numeric - 1, numeric])

    def of_outputs(outputs, numeric, codes):
        return torch.nn.functional.softplus(outputs.sum() * (1 - 2 * codes[0].float()))

    def plain(parameters, numeric, codes):
        return of_outputs(
            torch.einsum("goi,gi->go", parameters["w"], inputs(numeric, codes)),
            numeric,
            codes,
        )

    plan = {
        "parameters": {"w": (2, 1, 3)},
        "clip_norm": 0.5,
        "steps": 1,
        "sampling_probability": 1.0,
    }
    with opened(plan=plan_of(**plan), loss=plain) as session:
        plain_sum = session.step({"w": weight})["w"]
    with opened(
        plan=plan_of(**plan, factored=True),
        loss=FactoredLoss(inputs=inputs, loss=of_outputs),
        microbatch=32,
    ) as session:
        factored_sum = session.step({"w": weight})["w"]
    noise = steps_of(session.plan).noise_std_natural
    assert plain_sum.norm() > 100 * noise
    # Noise of both, and two roundings toward zero to 2⁻¹² in each record.
    assert (plain_sum - factored_sum).abs().max() < 12 * noise + 80 * 0.5 * 3 / 4096


def test_questions_and_steps_share_a_gate_and_a_certificate(ledger):
    question = Query(
        name="counts", dim=1, columns=2, norm=1.0, share=0.5, nonnegative=True
    )
    with opened(
        plan=plan_of(queries=(question,)),
        options={"ledger": ledger, "dataset": "clinic"},
    ) as session:
        counts = session.ask({"counts": Counts()})["counts"]
        session.step(START)
        with pytest.raises(OptionError, match="do not match"):
            session.ask({"counts": Counts()})
        release = session.release(START)
    assert counts.sum() == pytest.approx(80, abs=20)
    assert set(release.values) == {
        "counts",
        "gradients",
    }
    assert release.certificate.check() <= 90.0
    assert kinds(ledger) == [Kind.RESERVE, Kind.CONFIRM, Kind.COMMIT]


def test_a_release_holds_the_final_parameters_and_can_be_verified(tmp_path):
    with opened() as session:
        session.step(START)
        final = {"w": torch.tensor([1.0, 2.0, 3.0]), "bias": torch.tensor(4.0)}
        release = session.release(final)
    assert release.values["gradients"][:, 0].tolist() == [1, 2, 3, 4]
    assert release.certificate.public["why"] == "a test"
    # Fewer steps than planned cost the whole plan.
    assert release.certificate.events[0].steps == 4
    folder = write_model(
        tmp_path / "model",
        release=release,
        tensors={"w": np.ones(3)},
        model={"kind": "test"},
    )
    assert verify_model(folder).recomputed_epsilon <= 90.0
    with pytest.raises(OptionError, match="has returned its release"):
        session.release(final)


def test_the_session_refuses_after_the_last_step():
    with opened(plan=plan_of(steps=2)) as session:
        assert [
            session.remaining_steps,
            session.step(START) and session.remaining_steps,
        ] == [2, 1]
        session.step(START)
        assert session.remaining_steps == 0
        with pytest.raises(OptionError, match="all 2 steps were used"):
            session.step(START)
    session.release(START)


def test_the_plan_must_be_that_of_the_gate():
    gate = Gate(frame(), schema=SCHEMA, epsilon=1.0)
    other = Gate(frame(), schema=SCHEMA, epsilon=2.0)
    for plan in (plan_of(), plan_steps(other.budget, plan_of())):
        with pytest.raises(OptionError, match=r"takes a Plan|calibrated for"):
            gate.gradients(plan, loss, method="test", public={})


@pytest.mark.parametrize(
    "parameters",
    [{}, {"w": torch.zeros(3)}, {"w": torch.zeros(4), "bias": torch.zeros(())}],
)
def test_parameters_of_other_shapes_are_refused_and_use_up_nothing(parameters):
    with opened() as session:
        with pytest.raises(OptionError, match="shapes"):
            session.step(parameters)
        assert session.remaining_steps == 4
        session.step(START)
        with pytest.raises(OptionError, match="shapes"):
            session.release(parameters)
        session.release(START)


def test_a_release_needs_a_step_and_parameters():
    with opened() as session:
        with pytest.raises(OptionError, match="takes what was trained"):
            session.release()
        with pytest.raises(OptionError, match="no step was taken"):
            session.release(START)


def test_loss_and_plan_must_be_both_factored_or_neither():
    with pytest.raises(OptionError, match="factored=False"):
        opened(loss=FactoredLoss(inputs=lambda n, c: n, loss=lambda o, n, c: o.sum()))
    with pytest.raises(OptionError, match="factored=True"):
        opened(plan=plan_of(parameters={"w": (1, 1, 3)}, factored=True))


@pytest.mark.parametrize(
    ("layer", "cure"),
    [
        (torch.nn.BatchNorm1d(3), "0.*BatchNorm1d.*GroupNorm"),
        (
            torch.nn.InstanceNorm1d(3, track_running_stats=True),
            "InstanceNorm1d.*GroupNorm",
        ),
        (torch.nn.Dropout(0.5), "Dropout.*draws randomness"),
    ],
)
def test_layers_that_mix_records_or_draw_randomness_are_refused_by_name(layer, cure):
    module = torch.nn.Sequential(layer, torch.nn.Linear(3, 1))
    with pytest.raises(OptionError, match=cure):
        module_loss(module, lambda run, numeric, codes: run(numeric[None]).sum())
    module_loss(module.eval(), lambda run, numeric, codes: run(numeric[None]).sum())


def test_a_loss_that_draws_randomness_is_refused():
    session = opened(
        loss=lambda parameters, numeric, codes: (parameters["w"] * torch.rand(3)).sum()
    )
    with session, pytest.raises(RuntimeError, match="random"):
        session.step(START)


def test_gradients_that_depend_on_the_place_in_a_block_are_refused(monkeypatch, ledger):
    mix(monkeypatch, lambda gradients, _: gradients - gradients.mean(axis=0))
    with (
        opened(options={"ledger": ledger, "dataset": "clinic"}) as session,
        pytest.raises(OptionError, match="place"),
    ):
        session.step(START)
    assert kinds(ledger) == []


def test_the_whole_plan_is_reserved_before_the_first_record_is_read(
    ledger, monkeypatch
):
    session = opened(options={"ledger": ledger, "dataset": "clinic"})
    monkeypatch.setattr(
        session.hand_over().source,
        "batch_readers",
        lambda: (_ for _ in ()).throw(DataError("unreadable")),
    )
    with pytest.raises(DataError, match="unreadable"):
        session.step(START)
    # No noise was drawn, so it is given back.
    assert kinds(ledger) == [Kind.RESERVE, Kind.VOID]
    assert (
        ledger.history("clinic")[-1].reason == "stopped by DataError before any release"
    )


def test_replace_one_checks_the_number_of_records(ledger):
    options = {"adjacency": "replace-one", "records": 79}
    with (
        opened(options=options) as session,
        pytest.raises(DataError, match="records=79"),
    ):
        session.step(START)
    with opened(options={**options, "records": 80}) as session:
        session.step(START)
