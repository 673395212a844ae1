"""The audit of whole releases: right code stays below its claim and is seen, and planted bugs are found.

Each audit fails by chance with probability at most 1e-4; those that run in every suite, with 1e-7.
"""

import numpy as np
import pytest

import planted
from noisegate import Budget, audit
from noisegate.auditing.attacks import Auditor, projected
from noisegate.auditing.examples import SMALL, TABLE
from noisegate.auditing.measure import measured
from noisegate.errors import OptionError
from noisegate.methods.llm import DPLLM
from noisegate.methods.merf import DPMERF
from noisegate.methods.registry import METHODS
from noisegate.privacy.events import Adjacency

MERF = DPMERF(frequencies=5)
LLM = DPLLM(**{**SMALL["dp-llm"], "steps": 12})
RARE = 1e-7


@pytest.mark.parametrize(("epsilon", "adjacency"), [(0.5, "add-remove"), (4.0, "replace-one")])
def test_right_sums_stay_below_their_claim_and_are_seen(epsilon, adjacency):
    budget = Budget(epsilon=epsilon, adjacency=Adjacency.parse(adjacency))
    found = projected(Auditor(method=MERF, schema=TABLE, budget=budget), runs=100, chance=RARE)
    assert found.holds, found
    # Under replace-one, few made-up records are as far apart as the bound allows for.
    assert found.lower_bound > (0.5 if adjacency == "add-remove" else 0.3) * epsilon


@pytest.mark.parametrize("epsilon", [1.0])
def test_right_gradients_stay_below_their_claim_and_are_seen(epsilon):
    found = projected(Auditor(method=LLM, schema=TABLE, budget=Budget(epsilon=epsilon)), runs=10, chance=RARE)
    assert found.holds, found
    assert found.lower_bound > 0.3 * epsilon


def test_noise_that_is_too_quiet_or_too_loud_is_found():
    """A third of the noise is above the claim; twice the noise is below, and not what is stated."""
    with planted.noise_times(1 / 3):
        quiet = projected(Auditor(method=MERF, schema=TABLE, budget=Budget(epsilon=1.0)), runs=60, chance=RARE)
    assert quiet.exceeded
    assert quiet.too_little_noise
    with planted.noise_times(2.0):
        loud = projected(Auditor(method=MERF, schema=TABLE, budget=Budget(epsilon=1.0)), runs=12, chance=RARE)
    assert not loud.exceeded
    assert loud.too_much_noise
    assert not loud.holds


def test_noise_whose_gradient_passes_un_noised_is_found():
    with planted.detached_noise():
        found = projected(Auditor(method=LLM, schema=TABLE, budget=Budget(epsilon=1.0)), runs=4, chance=RARE)
    assert found.lower_bound > 3.0


def test_the_sensitivity_of_another_quantity_is_found():
    """Two-sided: with mutual information itself, in nats, the same audit finds nothing."""
    wrong = measured(*planted.choices(planted.normalised, epsilon=1.0, runs=1000), kind="choices", chance=RARE)
    assert wrong.exceeded
    right = measured(*planted.choices(planted.mutual_information, epsilon=1.0, runs=1000), kind="choices", chance=RARE)
    assert not right.exceeded
    # Two neighbouring tables of 1,000 records, which the plain score tells apart by no more than its sensitivity.
    tables = np.array([[1000, 0], [0, 0]]), np.array([[999, 0], [0, 1]])
    assert abs(planted.mutual_information(tables[1]) - planted.mutual_information(tables[0])) <= planted.sensitivity(
        1000
    )
    assert planted.normalised(tables[1]) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("bug", planted.ON_SUMS)
def test_a_planted_bug_in_sums_is_above_the_claim(bug):
    with planted.ON_SUMS[bug]():
        found = projected(Auditor(method=DPMERF(frequencies=20), schema=TABLE, budget=Budget(epsilon=1.0)), runs=160)
    assert found.exceeded, found


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("name", [*METHODS, "discover"])
def test_every_method_stays_below_its_claim_and_is_seen(name, epsilon):
    if name in ("aim", "mst"):
        pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")
    runs = 8 if name in ("aim", "mst") else None
    found = audit(name, epsilon=epsilon, runs=runs)
    print(name, found)
    assert found.holds, found
    # Of a discovery, what is printed is about half of what is asked; of eight runs little is known of the noise.
    assert found.lower_bound > (0.25 if name in ("aim", "mst", "discover") else 0.4) * epsilon


def test_what_cannot_be_audited_is_refused():
    for target, options, message in [
        ("no such method", {}, "neither the folder of a model nor a method"),
        (3, {}, "must be the name of a method"),
        ("dp-merf", {"runs": 1}, r"runs=1 \(--runs\) must be a whole number, 4 or more"),
        ("dp-merf", {"by": "magic"}, r"by='magic' \(--by\) is not known"),
        ("dp-merf", {"colour": 3}, "dp-merf has no such setting"),
        ("discover", {"cells": 3}, "discover has no settings"),
        ("discover", {"by": "samples"}, "audited by projection alone"),
        ("dp-llm", {"by": "samples"}, "makes no records"),
        ("dp-merf", {"by": "one-run", "adjacency": "replace-one"}, "needs add-remove"),
    ]:
        with pytest.raises(OptionError, match=message):
            audit(target, **options)
