"""What the base install can do: everything about tables, from the plan over the default fit to the evaluation.

What takes torch says so before it spends. Where torch is installed, a table is fitted and sampled without loading it.
"""

import json
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import noisegate
from noisegate.errors import EXTRAS, MissingExtraError, require

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "tests" / "golden" / "models" / "pairwise"
# Rooms that compute with torch, and modules that hold its networks; in the others it is imported where it is used.
TORCH_ROOMS = ("networks", "contrib", "training")
TORCH_FREE = (
    *("models.folder", "models.mixture", "models.record_model", "models.synthesizer", "evaluation.report"),
    *("training.checkpoint", "training.mixture_fit", "training.pairwise"),
)
FREE_ROOMS = ("schema", "privacy", "ledger", "data", "gate", "features", "methods", "reporting", "cli", "auditing")
SCHEMA = """\
label = "answer"
[columns.age]
kind = "integer"
lower = 18
upper = 90
[columns.answer]
kind = "categorical"
levels = ["no", "yes"]
"""
BLOCKED = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(EXTRAS)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Blocked())
"""
QUERY = """
import json, sys
from noisegate.gate.gate import Gate
from noisegate.methods.registry import make_for
from noisegate.schema import Schema
schema = Schema.from_toml("schema.toml")
gate = Gate("data.csv", schema=schema, epsilon=1.0)
method = make_for("auto", schema, {})
release = method.query(gate, method.plan(gate.schema, gate.budget))
print(json.dumps({"epsilon": release.certificate.check(), "torch": "torch" in sys.modules}))
"""
IMPORT = "import importlib\nfor name in sys.argv[1:]: importlib.import_module(name)"
KEEP = "from noisegate import Synthesizer; Synthesizer.load('model').schema.to_toml('kept.toml')"
VERB = "import sys; sys.argv = ['noisegate', *sys.argv[1:]]; from noisegate.cli.start import start; start()"


def python(program, *arguments, cwd, executable=sys.executable):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [executable, "-c", program, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, env=environment
    )


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    rows = "".join(f"{18 + i % 70},{('no', 'yes')[i % 3 == 0]}\n" for i in range(300))
    (tmp_path / "data.csv").write_text("age,answer\n" + rows)
    shutil.copytree(MODEL, tmp_path / "model")
    return tmp_path


@pytest.mark.slow
def test_the_core_is_imported_without_torch(tmp_path):
    modules = [module.name for module in pkgutil.walk_packages(noisegate.__path__, "noisegate.")]
    inside = [name.removeprefix("noisegate.") for name in modules]
    core = [
        f"noisegate.{name}"
        for name in inside
        if name.partition(".")[0] in FREE_ROOMS or name in TORCH_FREE or ("." not in name and name not in TORCH_ROOMS)
    ]
    assert len(core) > 100
    ended = python(f"{BLOCKED}\n{IMPORT}", *core, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def without_torch(desk, run):
    """Every verb about a table; `run` gets a program and its arguments."""
    asked = json.loads(run(QUERY).stdout)
    assert asked["epsilon"] <= 1 and not asked["torch"]
    priced = run(VERB, "plan", "--schema", "schema.toml", "--epsilon", 1, "--json")
    assert json.loads(priced.stdout)["method"] == "pairwise"
    assert run(VERB, "ledger", "register", "clinic", "--epsilon", 2, "--ledger", "ledger.db").returncode == 0
    book = ("--dataset", "clinic", "--ledger", "ledger.db")
    asked = ("fit", "data.csv", "--schema", "schema.toml", "--epsilon", 1, *book)
    refused = run(VERB, *asked, "--method", "dp-merf", "--out", "refused")
    assert refused.returncode == 2
    assert "the fit of dp-merf needs torch; install it with: pip install 'noisegate[torch]'" in " ".join(
        refused.stderr.split()
    )
    account = json.loads(run(VERB, "ledger", "show", "clinic", "--json", "--ledger", "ledger.db").stdout)
    assert account["accounts"][0]["spent"] == 0 and not (desk / "refused.partial").exists()
    fitted = run(VERB, *asked, "--out", "fitted")
    assert fitted.returncode == 0, fitted.stderr
    assert run(VERB, "sample", "fitted", "-n", 10, "-o", "fitted.csv").returncode == 0
    assert json.loads(run(VERB, "verify", "model", "--json").stdout)["ok"]
    drawn = run(VERB, "sample", "model", "-n", 200, "--seed", 0, "-o", "made.csv")
    assert drawn.returncode == 0, drawn.stderr
    described = (
        "import noisegate; noisegate.Release.load(__import__('pathlib').Path('model')).schema.to_toml('kept.toml')"
    )
    assert run(described).returncode == 0
    report = run(VERB, "evaluate", "--synthetic", "made.csv", "--test", "made.csv", "--schema", "kept.toml", "--json")
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)


def test_a_table_needs_no_torch(desk):
    without_torch(desk, lambda program, *arguments: python(f"{BLOCKED}\n{program}", *arguments, cwd=desk))


def test_a_mistyped_method_is_told_the_near_one_and_not_that_torch_is_needed(desk):
    asked = ("plan", "--schema", "schema.toml", "--epsilon", 1, "--method", "dp-drre")
    ended = python(f"{BLOCKED}\n{VERB}", *asked, cwd=desk)
    told = " ".join(ended.stderr.split())
    assert (ended.returncode, "(did you mean dp-dre?)" in told, "torch" in told) == (2, True, False), told


def test_a_table_is_fitted_and_sampled_without_loading_what_is_installed_beside(desk):
    (desk / "schema.toml").write_text(
        SCHEMA.replace("[columns.answer]", '[columns.old]\nkind = "boolean"\n[columns.answer]')
    )
    rows = "".join(f"{18 + i % 70},{i % 70 > 40},{('no', 'yes')[i % 3 == 0]}\n".lower() for i in range(300))
    (desk / "data.csv").write_text("age,old,answer\n" + rows)
    for call in (
        ("fit", "data.csv", "--schema", "schema.toml", "--epsilon", 1, "--out", "fitted"),
        ("sample", "fitted", "-n", 50, "--seed", 0, "-o", "fitted.csv"),
    ):
        ended = python(f"import atexit, sys; atexit.register(lambda: print(*sys.modules))\n{VERB}", *call, cwd=desk)
        assert ended.returncode == 0, ended.stderr
        loaded = set(ended.stdout.split())
        assert "noisegate.models.mixture" in loaded and not loaded & {"torch", "sklearn", "matplotlib"}


@pytest.mark.parametrize("package", sorted(EXTRAS))
def test_what_is_missing_is_named_with_its_install_line(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    cure = rf"this needs {package}; .*pip install 'noisegate\[{EXTRAS[package]}\]'"
    with pytest.raises(MissingExtraError, match=cure):
        require(package, "this")


def test_a_model_that_needs_torch_says_so(tmp_path):
    shutil.copytree(MODEL.with_name("merf-table"), tmp_path / "model")
    ended = python(f"{BLOCKED}\n{VERB}", "sample", "model", "-n", 5, "-o", "made.csv", cwd=tmp_path)
    assert ended.returncode == 2
    assert "needs torch; install it with: pip install 'noisegate[torch]'" in " ".join(ended.stderr.split())


@pytest.mark.slow
def test_the_wheel_without_extras_in_a_fresh_environment(desk, tmp_path_factory):
    place, uv = tmp_path_factory.mktemp("fresh"), ROOT / ".venv-tools" / "bin" / "uv"
    if not uv.exists():
        pytest.skip(f"{uv} builds the wheel, and is not there: make environment")
    options = {"env": {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"}, "capture_output": True}

    def called(*arguments):
        return subprocess.run([uv, *map(str, arguments)], text=True, **options)

    assert called("venv", "-q", "-p", sys.executable, place / "venv").returncode == 0
    fresh = place / "venv" / "bin" / "python"
    for arguments in (["build", "--wheel", "-q", "-o", place, ROOT], ["pip", "install", "-q", "-p", fresh]):
        wheels = list(place.glob("*.whl"))
        ended = called(*arguments, *(wheels if arguments[0] == "pip" else []))
        if ended.returncode:
            pytest.skip(f"no package index can be reached: {ended.stderr.strip().splitlines()[-1:]}")
    assert not list(place.glob("venv/lib/*/site-packages/torch"))
    without_torch(desk, lambda program, *arguments: python(program, *arguments, cwd=desk, executable=str(fresh)))
