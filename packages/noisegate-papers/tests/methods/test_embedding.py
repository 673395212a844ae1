"""A fit plans once and draws each of its maps once: the plan carries them to the gate and to the fit."""

from collections import Counter
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Budget, Gate
from noisegate.errors import OptionError
from noisegate.methods.registry import make_for
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Plan
from noisegate.schema import Boolean, Categorical, Continuous, Schema, pixel_schema
from noisegate_images.features.fourier import RandomFourier
from noisegate_images.features.perceptual import Perceptual
from noisegate_papers.features.products import Products

TABLE = Schema(
    (
        Continuous(name="u", lower=0.0, upper=1.0),
        Continuous(name="v", lower=0.0, upper=1.0),
        Categorical(name="k", levels=("a", "b", "c")),
        Boolean(name="y"),
    ),
    label="y",
)
IMAGES = pixel_schema(8, 8, labels=(0, 1))
MADE = {
    (Plan, "calibrate"): "calibrations",
    (RandomFourier, "__post_init__"): "frequencies",
    (Products, "__post_init__"): "products",
    (Perceptual, "__init__"): "perceptual",
}
SMALL = {"latent": 2, "fit_options": {"steps": 2, "check_every": 1}}
PICTURES = {**SMALL, "channels": (4, 2), "hidden": (4,)}
JOINT = {"pixels": 10, "orientations": 10, "wavelets": 10, "strokes": 10, **PICTURES}
CASES = {
    "dp-merf": (TABLE, {"frequencies": 10, **SMALL}, {"frequencies": 1}),
    "dp-merf of images": (IMAGES, {"frequencies": 10, **PICTURES}, {"frequencies": 1}),
    "dp-hp": (TABLE, {"components": 2, **SMALL}, {"products": 2}),
    "dp-hp of images": (IMAGES, PICTURES, {"products": 2}),
    # Those of the orientations are Fourier features too.
    "dp-mepf of images": (IMAGES, {**PICTURES, "layers": ("last",)}, {"perceptual": 1}),
    "joint of images": (IMAGES, {**JOINT, "tries": 1}, {"frequencies": 4, "perceptual": 1}),
    # The model judges its images on the CPU, by a network of its own: that of the fit may have moved.
    "joint of images that are judged": (IMAGES, JOINT, {"frequencies": 4, "perceptual": 2}),
}


@contextmanager
def counted():
    """Counts how often each of these is called."""
    seen = Counter()

    def watched(kind, function, name):
        true = getattr(kind, function)

        def call(self, *arguments, **options):
            seen[name] += 1
            return true(self, *arguments, **options)

        return patch.object(kind, function, call)

    with ExitStack() as stack:
        for (kind, function), name in MADE.items():
            stack.enter_context(watched(kind, function, name))
        yield seen


def gate(schema, **options):
    random = np.random.default_rng(0)
    if schema is IMAGES:
        columns = {name: random.integers(0, 256, 40) for name in schema.names[:-1]} | {"label": [0, 1] * 20}
    else:
        columns = {"u": random.uniform(size=40), "v": random.uniform(size=40), "k": ["a", "b"] * 20}
        columns["y"] = [True, False] * 20
    return Gate(pa.table(columns), schema=schema, **{"epsilon": 1.0, **options})


@pytest.mark.parametrize("case", CASES)
def test_one_fit_calibrates_once_and_draws_each_map_once(case):
    schema, settings, expected = CASES[case]
    method = make_for(case.split()[0], schema, settings)
    with counted() as seen:
        method.fit(gate(schema, epsilon=100.0), device="cpu")
    assert dict(seen) == {"calibrations": 1, **expected}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_release_can_be_fitted_later_without_its_plan(case):
    schema, settings, _ = CASES[case]
    method = make_for(case.split()[0], schema, settings)
    plan = method.plan(schema, Budget(epsilon=1.0))
    release = method.query(gate(schema), plan)
    assert set(plan.maps) == set(release.values) == {one.query.name for one in plan.releases}
    with_plan = method.fit_release(release, device="cpu", plan=plan)
    later = method.fit_release(release, device="cpu")
    assert with_plan.sample(20, seed=0).equals(later.sample(20, seed=0))


def test_a_plan_of_another_budget_is_refused_by_the_gate():
    method = make_for("dp-merf", TABLE, {"frequencies": 10})
    plan = method.plan(TABLE, Budget(epsilon=2.0))
    with pytest.raises(OptionError, match="the plan is calibrated for"):
        method.query(gate(TABLE), plan)


def test_the_number_of_records_is_asked_unless_it_is_public():
    schema = Schema(TABLE.columns[:3])
    method = make_for("dp-merf", schema, {"frequencies": 10})
    for adjacency in Adjacency:
        plan = method.plan(schema, Budget(epsilon=1.0, adjacency=adjacency))
        assert ("counts" in plan.maps) == (adjacency is Adjacency.ADD_REMOVE)
