"""Each import contract is broken by the import that it is there to stop: a rule that cannot bite is no rule."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = Path(__file__).parents[1] / ".importlinter"
ROOMS = {
    "noisegate": "answers app app/cli app/drafts app/runs app/silos app/start "
    "app/streams gate gate/discovery gate/engines gate/per_example gate/sessions "
    "gate/silos gate/streams ledger methods models models/linked models/output "
    "models/tables privacy queries schema schema/linked sources sources/tables",
    "noisegate_evaluate": "auditing cli metrics reporting utility",
    "noisegate_images": "methods models networks output queries sources training",
    "noisegate_papers": "cli contrib estimators methods models queries training",
}
MODULES = {
    "noisegate": "__main__ errors testing app.demo app.drafts.init app.signature "
    "app.start.guided app.start.questions gate.discovery.schema_gate gate.execution "
    "gate.gate gate.journal gate.samples gate.session gate.steps gate.sums "
    "gate.silos.keys gate.transaction methods.embedding methods.registry models.folder models.linked.model "
    "models.record_model models.synthesizer models.within_cell privacy.grid "
    "privacy.gradient_grid schema.arrow_types schema.linked.schema schema.schema "
    "sources.families sources.linked sources.sources sources.tables.tables",
    "noisegate_evaluate": "comparison images measures reading tables cli.audit",
    "noisegate_images": "demo networks.named queries.perceptual "
    "training.moment_matching",
    "noisegate_papers": "methods.dp_merf",
}
# Imports that a contract names: those that it allows, and those that it ignores.
CORE = {
    "privacy.noise": "import opendp.mod\n",
    "gate.sessions.marginals": "import opendp.extras.mbi\n",
    "gate.transaction": "from noisegate.privacy import noise\n",
    "privacy.accounting": "from noisegate.privacy import composition\n",
    "privacy.composition": "",
    "ledger.tables": "import psycopg\nimport sqlite3\n",
    "sources.tables.sqlite_file": "import sqlite3\n",
    "gate.silos.keys": "import cryptography\n",
    "privacy.plan": "from noisegate.privacy import noise\n",
    "privacy.gradient_plan": "from noisegate.privacy import noise\n",
    "schema.schema": "from noisegate.schema import arrow_types\n"
    "from noisegate.schema.linked import schema\n",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """An empty copy of the house: every room, with the imports that are allowed."""
    root = tmp_path_factory.mktemp("house")
    for package, rooms in ROOMS.items():
        for room in ("", *rooms.split()):
            (root / package / room).mkdir(parents=True, exist_ok=True)
            (root / package / room / "__init__.py").touch()
        for module in MODULES[package].split():
            _file(root, f"{package}.{module}").touch()
    for module, text in CORE.items():
        _file(root, f"noisegate.{module}").write_text(text)
    _file(root, "noisegate.gate.gate").write_text(
        "from noisegate.sources import tables\n"
    )
    _file(root, "noisegate_images.queries.perceptual").write_text(
        "from noisegate_images.networks import named\n"
    )
    shutil.copy(CONFIG, root)
    return root


def _file(root, module):
    return root / f"{module.replace('.', '/')}.py"


def _lint(root):
    program = "from importlinter.cli import lint_imports_command as run; run()"
    command = [sys.executable, "-c", program, "--no-cache", "--no-logo"]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return set(re.findall(r"^(.+) BROKEN(?: \(.*\))?$", done.stdout, re.MULTILINE))


def test_the_house_as_designed_keeps_every_contract(house):
    assert _lint(house) == set()


@pytest.mark.parametrize(
    ("module", "planted", "contract"),
    [
        (
            "noisegate.methods.__init__",
            "import noisegate_papers",
            "The kernel knows no package",
        ),
        (
            "noisegate.gate.gate",
            "from noisegate_evaluate.auditing import x",
            "The kernel knows no package",
        ),
        (
            "noisegate_evaluate.tables",
            "from noisegate_papers.models import x",
            "Images and evaluation stand below",
        ),
        (
            "noisegate_images.demo",
            "import noisegate_evaluate.images",
            "Images are made without evaluation",
        ),
        (
            "noisegate.gate.gate",
            "from noisegate.answers import released",
            "The trusted rooms",
        ),
        (
            "noisegate_papers.queries.__init__",
            "from noisegate_papers.models import x",
            "The trusted rooms",
        ),
        (
            "noisegate.models.synthesizer",
            "from noisegate.methods import registry",
            "Each room knows the rooms below",
        ),
        (
            "noisegate.ledger.tables",
            "from noisegate.queries import x",
            "Each room knows the rooms below",
        ),
        (
            "noisegate_images.training.moment_matching",
            "from noisegate.gate.gate import Gate",
            "The public side",
        ),
        (
            "noisegate.models.synthesizer",
            "import noisegate.sources.tables.tables",
            "The public side",
        ),
        (
            "noisegate.models.output.__init__",
            "import noisegate.sources.tables.tables",
            "The public side",
        ),
        (
            "noisegate.models.linked.model",
            "from noisegate.sources import linked",
            "The public side",
        ),
        (
            "noisegate_papers.methods.dp_merf",
            "from noisegate.gate import transaction",
            "The papers read no records",
        ),
        (
            "noisegate_papers.methods.dp_merf",
            "import noisegate_images.sources",
            "The papers read no records",
        ),
        (
            "noisegate_images.queries.__init__",
            "from noisegate.sources import tables",
            "Queries are frozen",
        ),
        (
            "noisegate.queries.__init__",
            "from noisegate.sources import tables",
            "Queries are frozen",
        ),
        (
            "noisegate.privacy.plan",
            "from noisegate.sources import tables",
            "Each room knows",
        ),
        (
            "noisegate.schema.__init__",
            "from noisegate.privacy import accounting",
            "Each room knows",
        ),
        ("noisegate.errors", "import noisegate.schema", "Errors depend on nothing"),
        ("noisegate.gate.gate", "from noisegate.models import x", "The trusted rooms"),
        (
            "noisegate_images.sources.__init__",
            "from noisegate_images.networks import x",
            "The trusted rooms",
        ),
        (
            "noisegate_evaluate.tables",
            "import noisegate.methods",
            "Evaluation takes two tables",
        ),
        (
            "noisegate_images.networks.__init__",
            "from noisegate import methods",
            "Networks are plain modules",
        ),
        (
            "noisegate.models.output.__init__",
            "from noisegate.models import folder",
            "Files of samples",
        ),
        (
            "noisegate_evaluate.reporting.__init__",
            "from noisegate_evaluate import auditing",
            "An attacker stands",
        ),
        (
            "noisegate_evaluate.reporting.__init__",
            "from noisegate.app.cli import x",
            "Nothing imports the command line",
        ),
        (
            "noisegate.privacy.grid",
            "import torch.func",
            "The integer half of gradients",
        ),
        (
            "noisegate.privacy.gradient_grid",
            "import torch.func",
            "The integer half of gradients",
        ),
        (
            "noisegate.privacy.plan",
            "import opendp.measurements",
            "One file draws private noise",
        ),
        (
            "noisegate_papers.methods.dp_merf",
            "import opendp.extras.mbi",
            "One file draws private noise",
        ),
        (
            "noisegate.methods.__init__",
            "from noisegate.privacy.noise import x",
            "Only the state machine of the gate asks",
        ),
        (
            "noisegate_papers.methods.dp_merf",
            "from noisegate.privacy.noise import x",
            "Only the state machine of the gate",
        ),
        (
            "noisegate.privacy.plan",
            "from noisegate.privacy.composition import x",
            "One file turns events",
        ),
        (
            "noisegate.privacy.composition",
            "from dp_accounting.pld import x",
            "dp_accounting is the oracle",
        ),
        ("noisegate.methods.__init__", "import psycopg.sql", "One file speaks"),
        ("noisegate.sources.tables.tables", "import sqlite3", "One file speaks"),
        (
            "noisegate.gate.gate",
            "from cryptography.hazmat.primitives import hashes",
            "One file makes keys and masks",
        ),
        (
            "noisegate.sources.tables.__init__",
            "from noisegate.gate import gate",
            "No import cycles",
        ),
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
        "noisegate.models.tables.__init__": "from noisegate import methods\n",
        "noisegate.methods.__init__": "from noisegate.gate import gate\n",
    }
    try:
        for module, text in detour.items():
            _file(house, module).write_text(text)
        assert any(name.startswith("The public side") for name in _lint(house))
    finally:
        for module in detour:
            _file(house, module).write_text("")
