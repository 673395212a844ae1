"""Each import contract is broken by the import that it is there to stop: a rule that cannot bite is no rule."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = Path(__file__).parents[1] / ".importlinter"
ROOMS = [
    "schema",
    "privacy",
    "ledger",
    "data",
    "data/tables",
    "features",
    "gate",
    "gate/per_example",
    "gate/queries",
    "models",
    "models/output",
    "training",
    "methods",
    "networks",
    "evaluation",
    "reporting",
    "contrib",
    "auditing",
    "cli",
]
MODULES = (
    "errors",
    "estimators",
    "models.synthesizer",
    "models.folder",
    "models.record_model",
    "data.tables.tables",
    "gate.gate",
    "gate.per_example.clipping",
    "training.moment_matching",
    "__main__",
)
CORE = {
    "privacy.noise": "import opendp.mod\nimport randomgen\n",
    "gate.queries.marginals": "import opendp.extras.mbi\n",
    "gate.session": "from noisegate.privacy import noise\n",
    "privacy.accounting": "from noisegate.privacy import composition\n",
    "privacy.composition": "from noisegate.privacy import lattice\n",
    "privacy.lattice": "",
    "ledger.tables": "import sqlalchemy\n",
    "privacy.masks": "import cryptography\n",
    "gate.samples": "import randomgen\n",
    "privacy.plan": "from noisegate.privacy import noise\n",
    "privacy.gradient_plan": "from noisegate.privacy import noise\n",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """An empty copy of the house: every room, with the imports that are allowed."""
    root = tmp_path_factory.mktemp("house")
    package = root / "noisegate"
    for room in ("", *ROOMS):
        (package / room).mkdir(parents=True, exist_ok=True)
        (package / room / "__init__.py").touch()
    for module in MODULES:
        _file(root, module).touch()
    for module, text in CORE.items():
        _file(root, module).write_text(text)
    _file(root, "gate.gate").write_text("from noisegate.data import tables\n")
    shutil.copy(CONFIG, root)
    return root


def _file(root, module):
    return root / "noisegate" / f"{module.replace('.', '/')}.py"


def _lint(root):
    program = "from importlinter.cli import lint_imports_command as run; run()"
    command = [sys.executable, "-c", program, "--no-cache", "--no-logo"]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return {line.removesuffix(" BROKEN") for line in done.stdout.splitlines() if line.endswith(" BROKEN")}


def test_the_house_as_designed_keeps_every_contract(house):
    assert _lint(house) == set()


@pytest.mark.parametrize(
    ("module", "planted", "contract"),
    [
        ("training.moment_matching", "from noisegate.gate.gate import Gate", "The public side"),
        ("models.synthesizer", "import noisegate.data.tables.tables", "The public side"),
        ("features.__init__", "from noisegate.data import tables", "Features are frozen"),
        ("privacy.plan", "from noisegate.data import tables", "The privacy core"),
        ("schema.__init__", "from noisegate.privacy import accounting", "A schema is public"),
        ("errors", "import noisegate.schema", "Errors depend on nothing"),
        ("gate.gate", "from noisegate.models import x", "The private side"),
        ("evaluation.__init__", "import noisegate.methods", "Evaluation takes two tables"),
        ("networks.__init__", "from noisegate import methods", "Networks are plain modules"),
        ("gate.gate", "from noisegate_papers.networks import x", "The private side"),
        ("models.output.__init__", "import noisegate.data.tables.tables", "The public side"),
        ("models.output.__init__", "from noisegate_papers.networks import x", "Files of samples"),
        ("gate.gate", "from noisegate.models.output import x", "The private side"),
        ("features.__init__", "from noisegate_papers.contrib import x", "Features are frozen"),
        ("gate.gate", "from noisegate_evaluate.auditing import x", "An attacker stands outside"),
        ("reporting.__init__", "from noisegate.cli import x", "Nothing imports the command line"),
        ("gate.per_example.clipping", "import torch.func", "The integer half of gradients"),
        ("privacy.plan", "import opendp.measurements", "One file draws private noise"),
        ("gate.gate", "from randomgen import ChaCha", "Streams of a secret key are of noise"),
        ("gate.gate", "import opendp.extras.mbi", "One file draws private noise"),
        ("methods.__init__", "from noisegate.privacy.noise import x", "Only the state machine of the gate asks"),
        ("gate.gate", "from noisegate.privacy.noise import x", "Only the state machine of the gate asks"),
        ("privacy.plan", "from noisegate.privacy.composition import x", "One file turns events"),
        ("privacy.plan", "from noisegate.privacy.lattice import x", "One file turns events"),
        ("privacy.composition", "from dp_accounting.pld import x", "dp_accounting is the oracle"),
        ("methods.__init__", "import sqlalchemy.orm", "One file speaks"),
        ("gate.gate", "from cryptography.hazmat.primitives import hashes", "One file makes keys and masks"),
        ("data.tables.__init__", "from noisegate.gate import gate", "No import cycles"),
    ],
)
def test_a_planted_import_breaks_its_contract(house, module, planted, contract):
    file = _file(house, module)
    before = file.read_text()
    file.write_text(f"{before}{planted}\n")
    try:
        assert any(name.startswith(contract) for name in _lint(house))
    finally:
        file.write_text(before)


def test_a_detour_through_a_method_is_found(house):
    detour = {
        "training.moment_matching": "from noisegate import methods\n",
        "methods.__init__": "from noisegate.gate import gate\n",
    }
    try:
        for module, text in detour.items():
            _file(house, module).write_text(text)
        assert any(name.startswith("The public side") for name in _lint(house))
    finally:
        for module in detour:
            _file(house, module).write_text("")
