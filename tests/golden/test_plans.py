"""Plans and settings of every method are those of the version that wrote the golden files."""

import json

import pytest

from . import current
from .cases import FITS
from .differences import differences
from .names import HERE, METHOD_NAMES, settings_from_json

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
PLANS = json.loads((HERE / "plans.json").read_text())
SETTINGS = json.loads((HERE / "settings.json").read_text())


def test_every_method_has_golden_plans_and_settings():
    assert {case.split(" | ")[0] for case in PLANS} == {"auto", *METHOD_NAMES}
    assert {case.split(" | ")[0] for case in SETTINGS} == set(METHOD_NAMES)
    assert {method for method, _, _ in FITS.values()} == set(METHOD_NAMES) - {"mepf"}  # another name of dp-mepf


def quick_and_slow():
    """Yields the cases of plans: images under other budgets than the first are slow."""
    for case in PLANS:
        _, schema, budget, _ = case.split(" | ")
        yield pytest.param(case, marks=[pytest.mark.slow] if schema == "grey" and budget != current.FIRST else [])


@pytest.mark.parametrize("case", list(quick_and_slow()))
def test_a_plan_asks_what_it_always_asked(case):
    assert differences(PLANS[case], current.plan(case), relative=1e-9) == []


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_are_stored_and_read_as_always(case):
    found, golden = current.settings(case), SETTINGS[case]
    if golden is None:
        assert found is None
        return
    name = case.split(" | ")[0]
    assert differences(golden, json.loads(json.dumps(found.to_json()))) == []
    # What earlier versions stored is read, and means the same.
    read = settings_from_json(name, golden)
    assert differences(golden, json.loads(json.dumps(read.to_json()))) == [] and read == found
