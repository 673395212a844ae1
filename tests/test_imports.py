"""Every module can be imported on its own, and the public names are the ones that are promised."""

import pkgutil
import subprocess
import sys

import pytest

import noisegate

PUBLIC = [
    "__version__",
    "AIM",
    "Adjacency",
    "Budget",
    "BudgetRefusedError",
    "Certificate",
    "DPCGAN",
    "DPDM",
    "DPDRE",
    "DPFETA",
    "DPGAN",
    "DPGANFineTuned",
    "DPGANInversion",
    "DPHP",
    "DPLLM",
    "DPMEPF",
    "DPMEPFTrained",
    "DPMERF",
    "DPMGE",
    "DPNTK",
    "DPSGD",
    "DPSinkhorn",
    "DataLens",
    "GPATE",
    "GSWGAN",
    "Gate",
    "JointEmbedding",
    "Ledger",
    "Linked",
    "LocallyLinearMaps",
    "MST",
    "NoisegateError",
    "PATEGAN",
    "Pairwise",
    "PrivBayes",
    "PrivateEvolution",
    "PrivateSampler",
    "PrivateSetGeneration",
    "RayEngine",
    "Release",
    "Schema",
    "Synthesizer",
    "TabPE",
    "UserError",
    "Verdict",
    "audit",
    "discover_schema",
    "draft_schema",
    "evaluate",
    "fit",
    "load",
    "merge",
    "release",
    "report",
    "synthesize",
    "verify",
]
MODULES = [module.name for module in pkgutil.walk_packages(noisegate.__path__, "noisegate.")]

# Third-party packages stay loaded; noisegate itself is forgotten before each import, so that none leans on another.
ALONE = """
import importlib, sys, warnings
for name in sys.argv[1:]:
    for loaded in [n for n in sys.modules if n.partition(".")[0] == "noisegate"]:
        del sys.modules[loaded]
    importlib.import_module(name)
    print(name)
"""


@pytest.mark.slow
def test_every_module_is_imported_without_a_warning():
    imports = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    # The last ones first: what is at the borders, on which nothing else leans.
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", imports, *reversed(MODULES)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_every_module_imports_alone():
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, *MODULES], capture_output=True, text=True, check=False
    )
    assert ended.stdout.split() == MODULES, ended.stderr


def test_the_public_names_are_pinned_and_resolve():
    assert set(noisegate.__all__) == set(PUBLIC)
    for name in PUBLIC:
        assert getattr(noisegate, name) is not None
    assert set(PUBLIC) <= set(dir(noisegate))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = noisegate.nothing
