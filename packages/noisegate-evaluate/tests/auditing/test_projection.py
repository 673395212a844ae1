"""The audit of whole releases: right code stays below its claim and is seen, and planted bugs are found.

Each audit fails by chance with probability at most 1e-4; those that run in every suite, with 1e-7.
"""

import numpy as np
import pytest

import planted
from noisegate import Budget, audit
from noisegate.errors import OptionError
from noisegate.gate.sessions import shards
from noisegate.methods.pairwise import Pairwise
from noisegate.methods.registry import METHODS, make_for
from noisegate.privacy.events import Adjacency
from noisegate.schema import Boolean, Categorical, Integer, Schema
from noisegate_evaluate.auditing.attacks import (
    Auditor,
    from_samples,
    of_attribute,
    one_run,
    projected,
)
from noisegate_evaluate.auditing.examples import TABLE
from noisegate_evaluate.auditing.measure import measured
from noisegate_papers.methods.dp_llm import DPLLM
from noisegate_papers.methods.dp_merf import DPMERF
from noisegate_papers.methods.dp_sinkhorn import DPSinkhorn
from noisegate_papers.methods.privbayes import PrivBayes

MERF = DPMERF(frequencies=5)
SINKHORN = DPSinkhorn(**{**DPSinkhorn.audit_settings, "steps": 12})
LLM = DPLLM(**{**DPLLM.audit_settings, "steps": 12})
RARE = 1e-7


def auditor_of(method, schema=TABLE, epsilon=1.0, adjacency="add-remove"):
    budget = Budget(epsilon=epsilon, adjacency=Adjacency.parse(adjacency))
    return Auditor(method=method, schema=schema, budget=budget)


def audited(method, runs=4, **claim):
    return projected(auditor_of(method, **claim), runs=runs, chance=RARE)


def small(name, **settings):
    return make_for(name, TABLE, {**METHODS[name].audit_settings, **settings})


@pytest.mark.parametrize(
    ("epsilon", "adjacency"), [(0.5, "add-remove"), (4.0, "replace-one")]
)
def test_right_sums_stay_below_their_claim_and_are_seen(epsilon, adjacency):
    # With so many numbers that the limit on the noise is a few hundredths, whatever its draws.
    method = DPMERF(**DPMERF.audit_settings)
    found = audited(method, runs=60, epsilon=epsilon, adjacency=adjacency)
    assert found.holds, found
    # Under replace-one, few made-up records are as far apart as the bound allows for.
    assert found.lower_bound > (0.9 if adjacency == "add-remove" else 0.7) * epsilon


@pytest.mark.parametrize("epsilon", [1.0])
def test_right_gradients_stay_below_their_claim_and_are_seen(epsilon):
    both = [audited(LLM, epsilon=epsilon) for _ in range(2)]
    assert all(found.holds for found in both), both
    # One of a few hundred saw .68; two dozen others .78 to .91.
    assert max(found.lower_bound for found in both) > 0.7 * epsilon


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_right_vectors_of_whole_samples_stay_below_their_claim_and_are_seen(adjacency):
    found = audited(SINKHORN, adjacency=adjacency)
    assert found.holds, found
    assert 0.9 < found.noise[0] < 1 < found.noise[1] < 1.1
    # Its loss moves by a small part of the diameter that is claimed.
    assert found.lower_bound > 0.02


def test_noise_on_vectors_of_whole_samples_that_is_too_quiet_is_found():
    with planted.noise_times(1 / 2):
        found = audited(SINKHORN)
    assert found.too_little_noise
    assert found.noise[1] < 0.6


def test_noise_that_is_too_quiet_or_too_loud_is_found():
    """A third of the noise is above the claim; twice the noise is below, and not what is stated."""
    with planted.noise_times(1 / 3):
        quiet = audited(MERF, runs=20)
    assert quiet.exceeded
    assert quiet.too_little_noise
    with planted.noise_times(2.0):
        loud = audited(MERF, runs=12)
    assert not loud.exceeded
    assert loud.too_much_noise
    assert not loud.holds


def test_noise_that_is_missing_along_one_query_or_but_there_is_told_by_itself():
    """That all directions are alike is believed of neither."""
    auditor = auditor_of(MERF)
    worlds = auditor.worst_worlds()
    runs, certificates = zip(
        *(auditor.run(worlds, run % 2) for run in range(30)), strict=True
    )
    certificate = certificates[0]
    for run in runs:
        run.squares = run.squares[0] / 100, run.squares[1]
    elsewhere = measured(runs, certificate, kind="projection", chance=RARE)
    assert elsewhere.too_little_noise
    assert not elsewhere.exceeded
    for run in runs:
        run.squares = 100 * run.squares[0], run.squares[1]
        run.residuals["counts"] = [0.01 * left for left in run.residuals["counts"]]
    along = measured(runs, certificate, kind="projection", chance=RARE)
    assert along.exceeded
    assert along.too_little_noise


def test_noise_whose_gradient_passes_un_noised_is_found():
    with planted.detached_noise():
        found = audited(LLM)
    assert found.lower_bound > 3.0


def test_the_sensitivity_of_another_quantity_is_found():
    """Two-sided: with mutual information itself, in nats, the same audit finds nothing."""
    wrong = measured(
        *planted.choices(planted.normalised, epsilon=1.0, runs=1000),
        kind="choices",
        chance=RARE,
    )
    assert wrong.exceeded
    right = measured(
        *planted.choices(planted.mutual_information, epsilon=1.0, runs=1000),
        kind="choices",
        chance=RARE,
    )
    assert not right.exceeded
    # Two neighbouring tables of 1,000 records, which the plain score tells apart by no more than its sensitivity.
    tables = np.array([[1000, 0], [0, 0]]), np.array([[999, 0], [0, 1]])
    assert abs(
        planted.mutual_information(tables[1]) - planted.mutual_information(tables[0])
    ) <= planted.sensitivity(1000)
    assert planted.normalised(tables[1]) == pytest.approx(1.0)


def test_right_linked_tables_stay_below_their_claim_and_are_seen():
    found = audit("linked", epsilon=4.0, runs=4)
    assert found.holds, found
    assert 0.9 < found.noise[0] < 1 < found.noise[1] < 1.1
    assert found.lower_bound > 0.9 * 4.0


def test_children_that_count_whole_are_found():
    """The units of the worst case have many children; one more counts as much as if it were the only one."""
    with planted.whole_children():
        assert audit("linked", runs=4).exceeded


@pytest.mark.parametrize("by", ["one-run", "samples", "attribute"])
def test_linked_tables_are_audited_by_projection_alone(by):
    with pytest.raises(
        OptionError, match=f"by='{by}': linked tables are audited by projection alone"
    ):
        audit("linked", by=by)


@pytest.mark.slow
@pytest.mark.parametrize("bug", planted.ON_SUMS)
def test_a_planted_bug_in_sums_is_above_the_claim(bug):
    with planted.ON_SUMS[bug]():
        found = projected(auditor_of(DPMERF(frequencies=20)), runs=160)
    assert found.exceeded, found


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("name", [*METHODS, "discover"])
def test_every_method_stays_below_its_claim_and_is_seen(name, epsilon):
    if name in ("aim", "mst"):
        pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")
    runs = {"aim": 8, "mst": 8, "datalens": 16, "gs-wgan": 16}.get(name)
    found = audit(name, epsilon=epsilon, runs=runs)
    print(name, found)
    assert found.holds, found
    if name == "dp-llm" and epsilon == 4.0:
        # What it sees differs by the candidates that it draws: fourteen audits saw .79
        # to .90 of the claim, so the better of two is asked for .75.
        again = audit(name, epsilon=epsilon, runs=runs)
        assert again.holds, again
        found = max(found, again, key=lambda one: one.lower_bound)
    # docs/audit.md says what these do not reach: of a discovery half is printed, OpenDP's choices are not seen, and a
    # loss of whole samples and what a teacher has learnt move by a part of the diameter that is claimed.
    part = {
        "aim": 0.6,
        "mst": 0.5,
        "discover": 0.25,
        "dp-llm": 0.75,
        "dp-mge": 0.6,
        "dp-sinkhorn": 0.05,
        "psg": 0.6,
    }
    part |= {"datalens": 0.1, "g-pate": 0.1, "gs-wgan": 0.02, "pate-gan": 0.05}
    assert found.lower_bound > part.get(name, 0.8) * epsilon


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_right_discovery_stays_below_its_claim_and_is_seen(adjacency):
    found = audit("discover", runs=60, adjacency=adjacency)
    assert found.holds, found
    # Sixty runs say little of the noise: at the edges that they come to once in ten thousand times.
    assert 0.5 < found.noise[0] < 1 < found.noise[1] < 1.9
    assert found.lower_bound > 0.2


def test_what_cannot_be_audited_is_refused():
    for target, options, message in [
        ("no such method", {}, "neither the folder of a model nor a method"),
        (3, {}, "must be the name of a method"),
        ("dp-merf", {"runs": 1}, r"runs=1 must be a whole number, 4 or more"),
        ("dp-merf", {"by": "magic"}, r"by='magic' is not known"),
        ("dp-merf", {"colour": 3}, "dp-merf has no such setting"),
        ("discover", {"cells": 3}, "discover has no settings"),
        ("discover", {"by": "samples"}, "audited by projection alone"),
        ("dp-llm", {"by": "samples"}, "makes no records"),
        ("dp-llm", {"by": "attribute"}, "makes no records"),
        ("dp-merf", {"by": "one-run", "adjacency": "replace-one"}, "needs add-remove"),
    ]:
        with pytest.raises(OptionError, match=message):
            audit(target, **options)


# The audit of sums over disjoint shards: right code stays below its claim and is seen, and planted bugs are found.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "adjacency"), [("pate-gan", "add-remove"), ("g-pate", "replace-one")]
)
def test_right_sums_over_shards_stay_below_their_claim_and_are_seen(name, adjacency):
    found = audited(small(name), adjacency=adjacency)
    assert found.holds, found
    assert 0.6 < found.noise[0] < 1 < found.noise[1] < 1.6


def test_noise_on_sums_over_shards_that_is_too_quiet_is_found():
    with planted.noise_times(1 / 2):
        found = audited(small("g-pate"))
    assert found.too_little_noise


@pytest.mark.slow
def test_shards_that_overlap_are_found(monkeypatch):
    """As in several codes of PATE-GAN: here every shard holds all records."""

    def overlapping(words, count):
        every = np.arange(len(words))
        sizes = np.full(count, len(words), dtype=np.intp)
        return shards._Split(
            order=np.tile(every, count),
            starts=np.arange(count) * len(words),
            sizes=sizes,
        )

    method = small("pate-gan", teachers=40, teacher_rounds=20, steps=4)
    assert audited(method).holds
    monkeypatch.setattr(shards._Split, "of", overlapping)
    monkeypatch.setattr(shards.ShardVectors, "probe", lambda *_: None)
    found = audited(method, runs=10)
    assert found.lower_bound > found.claim, found


# Audits in one run with many canaries, and of synthetic records alone: below the claim, and above it with no noise.

PRIVBAYES = PrivBayes(cells=3)

# As many levels as canaries, so that most of them are in a cell of their own.
MANY = Schema(
    (
        Categorical(name="who", levels=tuple(f"p{place}" for place in range(300))),
        Boolean(name="ill"),
    )
)


def test_one_run_of_right_code_says_less_than_the_claim_and_of_broken_code_more():
    auditor = auditor_of(MERF, MANY)
    right = one_run(auditor, runs=300)
    assert right.lower_bound <= 1.0
    assert right.runs == 1
    with planted.noise_times(0.01):
        broken = one_run(auditor, runs=300)
    assert broken.exceeded
    assert broken.lower_bound > 1.3


@pytest.mark.slow
def test_one_run_at_a_large_epsilon_sees_some_of_it():
    found = one_run(auditor_of(MERF, MANY, epsilon=20.0), runs=300)
    assert 0.3 < found.lower_bound <= 20.0


@pytest.mark.slow
def test_one_run_of_gradients_stays_below_the_claim():
    found = one_run(
        auditor_of(DPLLM(steps=20, sampling_probability=0.2, maps=2), epsilon=4.0),
        runs=100,
    )
    assert found.lower_bound <= 4.0


@pytest.mark.slow
def test_synthetic_records_tell_worlds_apart_where_there_is_next_to_no_noise_and_not_else():
    method = Pairwise(fit_options={"steps": 200})
    right = from_samples(auditor_of(method), runs=24)
    assert right.lower_bound <= 1.0
    loud = from_samples(
        auditor_of(method, epsilon=1000.0),
        runs=60,
        chance=0.01,
    )
    assert 1.0 < loud.lower_bound <= 1000.0


def test_a_column_of_a_record_is_guessed_where_there_is_next_to_no_noise():
    loud = of_attribute(auditor_of(PRIVBAYES, epsilon=1000.0), runs=8)
    assert loud.guessed[0] == 1.0
    assert loud.from_noise == 0


@pytest.mark.slow
def test_a_column_is_guessed_where_there_is_next_to_no_noise_and_not_else():
    """Without the record one value in four is right by chance. A fit believes the noise that is stated, so both are."""
    right = of_attribute(auditor_of(PRIVBAYES), runs=40)
    assert right.lower_bound <= 1.0
    loud = of_attribute(auditor_of(PRIVBAYES, epsilon=100.0), runs=100)
    assert loud.guessed[0] > 0.9
    assert loud.guessed[1] < 0.6
    assert 0 < loud.lower_bound <= 100


@pytest.mark.parametrize(
    "options", [{"contributions": 2}, {"adjacency": Adjacency.REPLACE_ONE}]
)
def test_a_column_is_guessed_of_units_and_of_records_that_are_replaced(options):
    schema = Schema((Integer(name="age", lower=0, upper=9),))
    found = of_attribute(
        Auditor(method=PRIVBAYES, schema=schema, budget=Budget(epsilon=1.0, **options)),
        runs=4,
    )
    assert found.lower_bound <= 1.0
    assert found.to_json()["guessed"] == found.guessed
