"""Examples in docstrings: each runs in an empty folder and imports what it uses, but for the name that it explains."""

import doctest
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import noisegate
import noisegate.schema

PACKAGES = [
    find_spec(name)
    for name in (
        "noisegate",
        "noisegate_images",
        "noisegate_evaluate",
        "noisegate_papers",
    )
]
FINDER = doctest.DocTestFinder()
EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
MODULES = sorted(
    ".".join(
        (
            package.name,
            *path.relative_to(Path(package.origin).parent).with_suffix("").parts,
        )
    ).removesuffix(".__init__")
    for package in PACKAGES
    for path in Path(package.origin).parent.rglob("*.py")
    if EXAMPLE.search(path.read_text("utf-8"))
)
EXTENSION_POINTS = {
    "noisegate.queries.feature_map": "FeatureMap Counts",
    "noisegate.gate.per_example.gradients": "module_loss",
    "noisegate.methods.embedding": "MeanEmbeddingMethod Embedding",
    "noisegate.methods.gradient": "GradientMethod",
    "noisegate.methods.method": "Method",
    "noisegate.methods.registry": "make_for",
    "noisegate.privacy.accounting": "epsilon mu_for",
    "noisegate.privacy.events": "Sampler Gaussian Sampled Batched "
    "Thresholded ZeroConcentrated",
    "noisegate.privacy.shard_plan": "BatchQuery",
    "noisegate.privacy.gradient_plan": "GradientQuery plan_steps",
    "noisegate.privacy.grid": "GridBound Grid",
    "noisegate.privacy.plan": "Query Plan plan_sums",
    "noisegate.records": "Rows Images",
    "noisegate.registry": "Registry",
    "noisegate.schema.kinds.bounded": "BoundedColumn NumberColumn RealColumn",
    "noisegate.schema.kinds.coded": "LevelColumn",
    "noisegate.schema.kinds.kind": "ColumnKind",
    "noisegate.schema.kinds.stepped": "SteppedColumn",
    "noisegate.schema.parsing": "Parsed parse_distinct_texts",
    "noisegate.settings": "Settings settings derived by_preset",
    "noisegate.testing": "made_up FakeGate check_feature_map check_method",
}
"""What a feature map, a method or a tool outside the package is written with, by module; beside `noisegate.schema`."""


def examples(module):
    tests = [test for test in FINDER.find(module, globs={}) if test.examples]
    for test in tests:
        own = test.name.removeprefix(f"{module.__name__}.").partition(".")[0]
        test.globs = {own: getattr(module, own)} if hasattr(module, own) else {}
    return {test.name: test for test in tests}


@pytest.mark.parametrize("module", MODULES)
def test_every_example_gives_what_it_says(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, test in examples(import_module(module)).items():
        printed = []
        doctest.DocTestRunner(verbose=False).run(test, out=printed.append)
        assert not printed, f"{name}:\n{''.join(printed)}"


def public_names():
    yield from (
        getattr(noisegate, name)
        for name in noisegate.__all__
        if not name.startswith("__")
    )
    described = (getattr(noisegate.schema, name) for name in noisegate.schema.__all__)
    yield from (
        name for name in described if inspect.isclass(name) or inspect.isfunction(name)
    )
    for module, names in EXTENSION_POINTS.items():
        yield from (getattr(import_module(module), name) for name in names.split())


def test_every_public_name_has_an_example_that_runs():
    names = [(member.__module__, member.__qualname__) for member in public_names()]
    missing = [
        name
        for module, name in names
        if f"{module}.{name}" not in examples(import_module(module))
    ]
    assert not missing, (
        f"write an example, 2 to 8 lines, into the docstring of {', '.join(missing)}"
    )
    assert {module for module, _ in names} <= set(MODULES)
