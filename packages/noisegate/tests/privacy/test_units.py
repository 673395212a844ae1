"""What a privacy unit is called, what it costs, and that a collision of hashes is paid for (G-14)."""

import math

import numpy as np
import pytest
from tests.shared.stated import certificate

from noisegate.errors import CalibrationError, ModelError, OptionError
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate, render
from noisegate.privacy.events import (
    Adjacency,
    describe_unit,
)
from noisegate.privacy.grid import UNITS
from noisegate.privacy.plan import Budget, Plan, Query, plan_sums, resolve_unit

QUESTION = Query(name="q", dim=3, columns=2, norm=2.0, share=1.0)


def budget(contributions=None, **options):
    unit = resolve_unit(
        "record", None if contributions is None else "patient", contributions
    )
    return Budget(
        **{"epsilon": 1.0, "unit": unit, "contributions": contributions, **options}
    )


def test_the_unit_is_named_by_its_column_and_not_by_the_limit():
    assert resolve_unit("respondent", None, None) == "respondent"
    assert (
        resolve_unit("record", " patient ", 3)
        == resolve_unit("record", "patient", 5)
        == "all records of one patient"
    )
    assert (
        describe_unit("all records of one patient", 3)
        == "all records of one patient, at most 3 used"
    )
    assert describe_unit("record", None) == "record"


SEVERAL = "all records of one patient", " All  records of ONE patient"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *[({"unit": unit}, "give unit_column and contributions") for unit in SEVERAL],
        *[({"unit": unit}, "in one line") for unit in ("", " ", "a\nb", None, 7)],
        *[
            ({"contributions": n}, "from 1 to 1000")
            for n in (0, -1, 1001, 2.0, True, "3", float("nan"))
        ],
        (
            {"contributions": 3, "adjacency": Adjacency.REPLACE_ONE},
            "use adjacency='add-remove'",
        ),
    ],
)
def test_a_unit_that_cannot_be_is_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Budget(
            **{
                "epsilon": 1.0,
                "unit": SEVERAL[0] if "contributions" in options else "record",
                **options,
            }
        )
    assert [
        Budget(epsilon=1.0, unit=unit, contributions=1).unit for unit in SEVERAL
    ] == [*SEVERAL]


@pytest.mark.parametrize("contributions", [1, 3, 1000])
def test_noise_grows_with_the_number_of_records_used(contributions):
    plan = plan_sums(budget(), (QUESTION,))
    several = plan_sums(budget(contributions), (QUESTION,))
    assert several.events[0].sensitivity == contributions * UNITS
    assert several.releases[0].noise_std == pytest.approx(
        contributions * plan.releases[0].noise_std, rel=1e-9
    )
    assert several.epsilon <= 1.0


def test_a_plan_for_fewer_records_than_are_used_is_refused():
    releases = plan_sums(budget(2), (QUESTION,)).releases
    with pytest.raises(CalibrationError, match="is below that of"):
        Plan(budget=budget(3), mechanisms=releases)


def certified(contributions):
    plan = plan_sums(budget(contributions), (QUESTION,))
    return certificate(
        unit=plan.budget.unit, contributions=contributions, events=plan.events
    )


def test_certificate_and_page_state_the_unit_and_what_is_used_of_it():
    stated = certified(3)
    assert "unit: all records of one patient, at most 3 used" in str(stated)
    assert "Privacy unit: all records of one patient, at most 3 used." in render(stated)
    assert Certificate.from_json(stated.to_json()) == stated
    assert stated.check() <= 1.0


def test_certificates_of_records_stay_as_they_were():
    stated = certified(None)
    assert "contributions" not in stated.to_json()["guarantee"]
    assert "Privacy unit: one record." in render(stated)
    assert Certificate.from_json(stated.to_json()) == stated


@pytest.mark.parametrize("limit", [0, -3, 2.5, True, "3"])
def test_a_certificate_with_a_meaningless_limit_is_refused(limit):
    stated = certified(3).to_json()
    stated["guarantee"]["contributions"] = limit
    with pytest.raises(ModelError, match="contributions="):
        Certificate.from_json(stated)


def test_rounding_up_pays_for_a_collision_of_hashes():
    rounding = 1e-9
    collision = 2.0**-87
    for epsilon in np.geomspace(0.01, 1000, 25):
        for delta in (1e-12, 1e-9, 1e-5, 1e-3, 0.01, 0.1, 0.3, 0.4999):
            mu = accounting.mu_for(epsilon, delta)
            # −dδ/dε = e^ε Φ(−ε/μ − μ/2), the second term of the curve.
            second = math.exp(
                epsilon + accounting._log_normal_cdf(-epsilon / mu - mu / 2)
            )
            assert epsilon * second >= 1e-12
            assert rounding * epsilon * second > 1e5 * collision
