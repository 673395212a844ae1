"""What the base install can do: everything about tables, from the plan over the default fit to the evaluation.

What takes torch says so before it spends. Where torch is installed, a table is fitted and sampled without loading it.
"""

import json
import os
import pkgutil
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import noisegate
from noisegate.errors import EXTRAS, PACKAGES, MissingExtraError, require

ROOT = Path(__file__).parents[1]
BESIDE = ("scipy", "jinja2", "joblib", "matplotlib", "sklearn")
"""What evaluation and images bring, and the kernel has not."""
MODEL = ROOT / "tests" / "golden" / "models" / "pairwise"
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
        if name.partition(".")[0] in {sorted({*EXTRAS} - {*PACKAGES, "scipy"})!r}:  # evaluation brings SciPy
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Blocked())
"""
ALONE = BLOCKED.replace(
    "in [", "in [" + "".join(f"{name!r}, " for name in (*PACKAGES, *BESIDE))
)
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
VERB = "import sys; sys.argv = ['noisegate', *sys.argv[1:]]; from noisegate.app.cli.start import start; start()"


def python(program, line="", *, cwd, executable=sys.executable):
    """Runs a program with the arguments of a line as it is typed."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    return subprocess.run(
        [executable, "-c", program, *line.split()],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=environment,
    )


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    rows = "".join(f"{18 + i % 70},{('no', 'yes')[i % 3 == 0]}\n" for i in range(300))
    (tmp_path / "data.csv").write_text("age,answer\n" + rows)
    shutil.copytree(MODEL, tmp_path / "model")
    return tmp_path


@pytest.mark.slow
def test_the_kernel_is_imported_alone(tmp_path):
    modules = [
        module.name
        for module in pkgutil.walk_packages(noisegate.__path__, "noisegate.")
    ]
    names = [name for name in modules if not name.endswith("__main__")]
    ended = python(f"{ALONE}\n{IMPORT}", " ".join(names), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def without_torch(desk, run):
    """Every verb about a table; `run` gets a program and its arguments."""
    queried = json.loads(run(QUERY).stdout)
    assert queried["epsilon"] <= 1
    assert not queried["torch"]
    priced = run(VERB, "plan --schema schema.toml --epsilon 1 --json")
    assert json.loads(priced.stdout)["method"] == "pairwise"
    register = "ledger register clinic --epsilon 2 --ledger ledger.db"
    assert run(VERB, register).returncode == 0
    fit = (
        "fit data.csv --schema schema.toml --epsilon 1 "
        "--dataset clinic --ledger ledger.db"
    )
    refused = run(VERB, f"{fit} --method dp-merf --out refused")
    assert refused.returncode == 2
    cure = "the fit of dp-merf needs torch; install it with: pip install 'noisegate[torch]'"
    assert cure in " ".join(refused.stderr.split())
    shown = run(VERB, "ledger show clinic --json --ledger ledger.db")
    assert json.loads(shown.stdout)["accounts"][0]["spent"] == 0
    assert not (desk / "refused.partial").exists()
    fitted = run(VERB, f"{fit} --out fitted")
    assert fitted.returncode == 0, fitted.stderr
    assert run(VERB, "sample fitted -n 10 -o fitted.csv").returncode == 0
    assert json.loads(run(VERB, "verify model --json").stdout)["ok"]
    drawn = run(VERB, "sample model -n 200 --seed 0 -o made.csv")
    assert drawn.returncode == 0, drawn.stderr
    described = (
        "import noisegate, pathlib\n"
        "release = noisegate.Release.load(pathlib.Path('model'))\n"
        "release.schema.to_toml('kept.toml')"
    )
    assert run(described).returncode == 0
    evaluate = "evaluate --synthetic made.csv --test made.csv --schema kept.toml --json"
    report = run(VERB, evaluate)
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)


def test_a_table_needs_no_torch(desk):
    without_torch(
        desk, lambda program, line="": python(f"{BLOCKED}\n{program}", line, cwd=desk)
    )


def test_a_mistyped_method_is_told_the_near_one_and_not_that_torch_is_needed(desk):
    plan = "plan --schema schema.toml --epsilon 1 --method dp-drre"
    ended = python(f"{BLOCKED}\n{VERB}", plan, cwd=desk)
    text = " ".join(ended.stderr.split())
    assert ended.returncode == 2, text
    assert "(did you mean dp-dre?)" in text
    assert "torch" not in text


@pytest.mark.parametrize("package", sorted(EXTRAS))
def test_what_is_missing_is_named_with_its_install_line(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    cure = rf"this needs {package}; .*pip install 'noisegate\[{EXTRAS[package]}\]'"
    with pytest.raises(MissingExtraError, match=cure):
        require(package, "this")


def test_a_model_that_needs_torch_says_so(tmp_path):
    shutil.copytree(MODEL.with_name("merf-table"), tmp_path / "model")
    ended = python(f"{BLOCKED}\n{VERB}", "sample model -n 5 -o made.csv", cwd=tmp_path)
    assert ended.returncode == 2
    cure = "needs torch; install it with: pip install 'noisegate[torch]'"
    assert cure in " ".join(ended.stderr.split())


def kernel_alone(run):
    """The verbs that a steward with a CSV needs, and what is said of the others."""
    fitted = run(VERB, "fit data.csv --schema schema.toml --epsilon 1 --out fitted")
    assert fitted.returncode == 0, fitted.stderr
    assert run(VERB, "sample fitted -n 10 -o fitted.csv").returncode == 0
    assert run(VERB, "verify fitted").returncode == 0
    evaluate = "evaluate --synthetic fitted.csv --test fitted.csv --schema schema.toml"
    lacking = run(VERB, evaluate)
    assert lacking.returncode == 2
    return " ".join(lacking.stderr.split())


def test_a_table_needs_the_kernel_alone(desk):
    kernel_alone(lambda program, line: python(f"{ALONE}\n{program}", line, cwd=desk))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheel of each package, by its name; skips where no index can be reached."""
    folder = tmp_path_factory.mktemp("wheels")
    uv = ROOT / ".venv-tools" / "bin" / "uv"
    if not uv.exists():
        pytest.skip(f"{uv} builds the wheels, and is not there: make environment")
    if problem := called(
        uv, "build", "--all-packages", "--wheel", "-q", "-o", folder, ROOT
    ).stderr.strip():
        pytest.skip(f"no package index can be reached: {problem.splitlines()[-1:]}")
    return {
        path.name.partition("-")[0].replace("_", "-"): path
        for path in folder.glob("*.whl")
    }


def called(*arguments):
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    return subprocess.run(
        [*map(str, arguments)], text=True, env=environment, capture_output=True
    )


def fresh(wheels, folder, *packages):
    """Returns what runs a program in a new environment of these packages alone."""
    uv = ROOT / ".venv-tools" / "bin" / "uv"
    assert (
        called(uv, "venv", "-q", "-p", sys.executable, folder / "venv").returncode == 0
    )
    executable = folder / "venv" / "bin" / "python"
    ended = called(
        uv,
        "pip",
        "install",
        "-q",
        "-p",
        executable,
        *(wheels[name] for name in packages),
    )
    if ended.returncode:
        pytest.skip(
            f"no package index can be reached: {ended.stderr.strip().splitlines()[-1:]}"
        )
    return partial(python, executable=str(executable))


@pytest.mark.slow
def test_the_wheel_of_the_kernel_in_a_fresh_environment(desk, wheels, tmp_path_factory):
    run = fresh(wheels, tmp_path_factory.mktemp("kernel"), "noisegate")
    printed = kernel_alone(partial(run, cwd=desk))
    # The survey is statsmodels': who has not got it is told how to get it.
    demo = run(VERB, "demo", cwd=desk)
    assert "pip install 'noisegate[demo]'" in " ".join(demo.stderr.split())
    packed = run(VERB, "sample fitted -n 20 --package handout", cwd=desk)
    assert packed.returncode == 0
    assert (desk / "handout" / "croissant.json").is_file()
    assert "No such command 'evaluate'" in printed
    assert "pip install 'noisegate[images]' 'noisegate[evaluate]'" in printed
    plan = "plan --schema schema.toml --epsilon 1 --method dp-merf"
    unknown = run(VERB, plan, cwd=desk)
    assert unknown.returncode == 2
    assert "'noisegate[papers]'" in " ".join(unknown.stderr.split())
    loaded = run(
        "import importlib.util as u; print([n for n in ('torch', 'sklearn', 'matplotlib') if u.find_spec(n)])",
        cwd=desk,
    )
    assert loaded.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_wheel_of_evaluation_in_a_fresh_environment(desk, wheels, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    run = fresh(wheels, folder, "noisegate", "noisegate-evaluate")
    fit = "fit data.csv --schema schema.toml --epsilon 1 --out paged"
    fitted = run(VERB, fit, cwd=desk)
    assert fitted.returncode == 0, fitted.stderr
    assert (desk / "paged" / "public.html").exists()
    evaluate = "evaluate --synthetic data.csv --test data.csv --schema schema.toml"
    report = run(VERB, evaluate, cwd=desk)
    assert report.returncode == 0, report.stderr


@pytest.mark.slow
def test_the_wheel_of_images_in_a_fresh_environment(desk, wheels, tmp_path_factory):
    from PIL import Image

    folder = tmp_path_factory.mktemp("images")
    run = fresh(wheels, folder, "noisegate", "noisegate-images")
    for name in ("cat", "dog"):
        (desk / "pictures" / name).mkdir(parents=True)
        for number in range(20):
            image = Image.new("L", (8, 8), 10 * number)
            image.save(desk / "pictures" / name / f"{number}.png")
    few = (
        "--set pixels=20 --set orientations=20 --set wavelets=0 --set strokes=0 "
        '--set fit_options={"steps":5,"batch":10}'
    )
    options = f"--size 8 --classes cat,dog {few}"
    fit = f"fit pictures {options} --epsilon 1 --out pictured"
    fitted = run(VERB, fit, cwd=desk)
    assert fitted.returncode == 0, fitted.stderr
    drawn = run(VERB, "sample pictured -n 4 -o made.npz", cwd=desk)
    assert drawn.returncode == 0


@pytest.mark.slow
def test_all_wheels_in_a_fresh_environment(desk, wheels, tmp_path_factory):
    run = fresh(wheels, tmp_path_factory.mktemp("all"), *wheels)
    methods = "from noisegate.methods.registry import METHODS; print(*METHODS)"
    listed = run(methods, cwd=desk)
    assert {"pairwise", "joint", "dp-merf"} <= set(listed.stdout.split()), listed.stderr
    exported = "import noisegate; print(noisegate.DPMERF, noisegate.evaluate)"
    assert run(exported, cwd=desk).returncode == 0
