"""INT, TERM and KILL at every stage of the verbs that take time: what is spent, what is left, and how it goes on."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.shared.patience import PATIENCE

from noisegate.ledger.ledger import Ledger

from .conftest import Ended, argv, environment, rows, said, states

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="no signals of this kind on Windows"
)

WORKER = Path(__file__).with_name("kill_worker.py")
SIGNALS = {"int": signal.SIGINT, "term": signal.SIGTERM, "kill": signal.SIGKILL}
LEDGER = "noisegate.ledger.ledger:Ledger"


@pytest.fixture(scope="module")
def worker():
    command = [sys.executable, str(WORKER)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


@dataclass(frozen=True)
class Played:
    """Plays verbs in a folder; `at` is where the signal comes: (function, before or after, signal), or None."""

    worker: subprocess.Popen
    folder: Path
    said: Path

    def __call__(self, *argv, at=None):
        stage, when, number = at or ("", "", 0)
        out, err = self.said / "out", self.said / "err"
        case = {
            "stage": stage,
            "when": when,
            "signal": int(number),
            "argv": [str(part) for part in argv],
        }
        case["draws"] = str(self.said / "draws")
        told = {**case, "cwd": str(self.folder), "out": str(out), "err": str(err)}
        self.worker.stdin.write(json.dumps(told) + "\n")
        self.worker.stdin.flush()
        code = int(self.worker.stdout.readline())
        ended = Ended(code=code, out=out.read_text(), err=err.read_text())
        assert "Traceback" not in ended.err and "fault in noisegate" not in ended.err, (
            ended.err
        )
        return ended

    @property
    def draws(self):
        """How often noise was drawn in all processes so far."""
        draws = self.said / "draws"
        return len(draws.read_text()) if draws.exists() else 0


@pytest.fixture
def play(worker, tmp_path, tmp_path_factory):
    return Played(worker, tmp_path, tmp_path_factory.mktemp("said"))


def hidden(folder):
    return [path.name for path in Path(folder).iterdir() if path.name.startswith(".")]


def matrix(stages, quick):
    """Every stage with every signal; those that are not among the quick ones are slow."""
    cases = [(*stage, name) for stage in stages for name in SIGNALS]
    return [
        pytest.param(
            *case,
            marks=() if case in quick else (pytest.mark.slow,),
            id="-".join(part.rpartition(":")[-1] for part in case),
        )
        for case in cases
    ]


# fit, of a release and then of a model.

BEFORE_NOISE = [
    ("noisegate.app.runs.folder:RunFolder.prepared", "before"),
    (f"{LEDGER}.reserve", "before"),
    (f"{LEDGER}.reserve", "after"),
    ("noisegate.gate.sums:LocalEngine.sum", "before"),
    ("noisegate.gate.journal:AnswerJournal.begin_query", "after"),
    (f"{LEDGER}.confirm", "before"),
]
FROM_NOISE = [
    (f"{LEDGER}.confirm", "after"),
    ("noisegate.privacy.noise:add_noise", "before"),
    ("noisegate.privacy.noise:add_noise", "after"),
    ("noisegate.gate.journal:AnswerJournal.write_answer", "before"),
    ("noisegate.gate.journal:AnswerJournal.write_answer", "after"),
    (f"{LEDGER}.commit", "before"),
    (f"{LEDGER}.commit", "after"),
    ("noisegate.app.runs.folder:RunFolder.keep", "before"),
]
# Killed there, noise may have been drawn, and its answer is nowhere: nobody draws it again.
LOST = FROM_NOISE[:4]
FROM_RELEASE = [
    ("noisegate.app.runs.folder:RunFolder.keep", "after"),
    ("noisegate_images.training.moment_matching:MomentMatching._descend", "before"),
    ("noisegate_images.training.moment_matching:MomentMatching._descend", "after"),
    ("noisegate.models.synthesizer:Synthesizer.save", "before"),
]
QUERIES = 3  # of the fit on the desk
QUICK_FIT = {
    ("noisegate.gate.sums:LocalEngine.sum", "before", "kill"),
    (f"{LEDGER}.confirm", "after", "term"),
}


QUICK_IN_PYTHON = {
    (f"{LEDGER}.confirm", "after", "int"),
    (
        "noisegate_images.training.moment_matching:MomentMatching._descend",
        "after",
        "term",
    ),
}


@pytest.mark.parametrize(
    ("stage", "when", "name"),
    matrix(BEFORE_NOISE + FROM_NOISE + FROM_RELEASE, QUICK_FIT),
)
def test_a_fit(desk, play, stage, when, name):
    _stopped_fit(desk, play, desk.fit(), (stage, when, name), {"int": 130, "term": 130})


@pytest.mark.parametrize(
    ("stage", "when", "name"),
    matrix(BEFORE_NOISE + FROM_NOISE + FROM_RELEASE, QUICK_IN_PYTHON),
)
def test_a_fit_in_python(desk, play, stage, when, name):
    _stopped_fit(
        desk,
        play,
        desk.fit_in_python(),
        (stage, when, name),
        {"int": 130, "term": -signal.SIGTERM},
    )


def _stopped_fit(desk, play, fit, at, ends):
    stage, when, name = at
    before, (partial, killed) = (
        desk.listing(),
        (desk.out.with_name("model.partial"), name == "kill"),
    )
    ended = play(*fit, at=(stage, when, SIGNALS[name]))
    reserved, committed, voided = states(desk.ledger)
    kinds = [entry.kind.value for entry in Ledger(desk.ledger).history("clinic")][1:]
    if ended.code == 0:  # nothing was left to be stopped
        assert (
            stage.endswith("save")
            and not killed
            and not partial.exists()
            and not hidden(desk.folder)
        )
        assert (play("verify", desk.out).code, states(desk.ledger)) == (0, (0, 1, 0))
        return
    assert ended.code == (ends | {"kill": -signal.SIGKILL})[name]
    assert not desk.out.exists() and not hidden(desk.folder)
    whole = (partial / "certificate.json").exists() and not (partial / "room").exists()
    if killed:
        assert voided == 0 and reserved + committed == ("reserve" in kinds)
        assert ("confirm" in kinds) or (stage, when) in BEFORE_NOISE
    else:
        # What was reserved is either given back, and nothing is left, or released, kept and committed.
        stopped_early = not whole
        assert (stage, when) not in FROM_RELEASE or whole
        assert (reserved, committed, voided) == (
            (0, 0, "reserve" in kinds) if stopped_early else (0, 1, 0)
        )
        assert not stopped_early or (
            desk.listing() == before
            and desk.account().spent == 0
            and "confirm" not in kinds
        )
        assert (stage, when) in BEFORE_NOISE or whole
    reads_again = (
        killed
        and stage != "noisegate.app.runs.folder:RunFolder.prepared"
        and (stage, when) not in LOST
    )
    _goes_on(desk, play, whole=whole or reads_again, partial=partial, stage=stage)


def _goes_on(desk, play, *, whole, partial, stage):
    spent, before = desk.account().spent, play.draws
    resumed = play("fit", "--resume", "--out", desk.out)
    if whole:
        assert resumed.code == 0, resumed.err
        assert play("verify", desk.out).code == 0
        assert [entry.kind.value for entry in Ledger(desk.ledger).history("clinic")][
            1:
        ] == [
            "reserve",
            "confirm",
            "commit",
        ]
        assert desk.account().spent == spent or (
            stage.endswith("reserve") and spent == 0
        )
        assert (
            not partial.exists() and play.draws == QUERIES
        )  # in both processes together
    else:
        assert play.draws == before
        assert resumed.code == 2 and (
            "resume" in resumed.err or "answer is lost" in said(resumed.err)
        )
        if partial.exists():  # a killed one, which says so to the next as well
            assert play(*desk.fit()).code == 2
            assert desk.account().spent == spent


# A training of steps at the gate.

STEPS = [
    (f"{LEDGER}.reserve", "after"),
    ("noisegate.gate.journal:Journal.create", "after"),
    ("noisegate.gate.journal:Journal.begin_step", "after"),
    (f"{LEDGER}.confirm", "after"),
    ("noisegate.privacy.noise:add_noise", "after"),
    ("noisegate.gate.session:Session.release", "before"),
    (f"{LEDGER}.commit", "after"),
]
QUICK_STEPS: set[tuple[str, ...]] = set()  # tests/journeys kills one


@pytest.mark.parametrize(("stage", "when", "name"), matrix(STEPS, QUICK_STEPS))
def test_a_training(desk, play, stage, when, name):
    llm = argv(
        "--method dp-llm --records 200 --set steps=6 --set maps=2 --set sampling_probability=0.25"
    )
    base = [
        "fit",
        desk.data,
        "--schema",
        desk.schema,
        "--epsilon",
        "1",
        "--out",
        desk.out,
        *llm,
    ]
    ended = play(
        *base,
        "--dataset",
        "clinic",
        "--ledger",
        desk.ledger,
        at=(stage, when, SIGNALS[name]),
    )
    kinds = [entry.kind.value for entry in Ledger(desk.ledger).history("clinic")][1:]
    if ended.code == 0:  # nothing is left to be stopped
        assert (
            name != "kill"
            and kinds == ["reserve", "confirm", "commit"]
            and desk.out.exists()
        )
        return
    assert ended.code == (-signal.SIGKILL if name == "kill" else 130)
    assert not hidden(desk.folder) and not desk.out.exists()
    spent = desk.account().spent
    assert (spent > 0.9) == (kinds[-1] != "void")
    resumed = play("fit", "--resume", desk.data, "--out", desk.out)
    if resumed.code == 0:
        assert play("verify", desk.out).code == 0
        entries = Ledger(desk.ledger).history("clinic")[1:]
        assert [entry.kind.value for entry in entries] == [
            "reserve",
            "confirm",
            "commit",
        ]
        assert desk.account().spent == spent
    else:
        assert resumed.code == 2 and ("confirm" not in kinds or name == "kill")


# The discovery of a schema.

DISCOVERY = [
    (f"{LEDGER}.reserve", "before"),
    (f"{LEDGER}.reserve", "after"),
    ("noisegate.gate.discovery.schema_gate:read_counts", "before"),
    (f"{LEDGER}.confirm", "before"),
    (f"{LEDGER}.confirm", "after"),
    ("noisegate.privacy.noise:add_noise", "before"),
    ("noisegate.gate.discovery.findings:schema_text", "before"),
    (f"{LEDGER}.commit", "after"),
    ("noisegate.privacy.schema_certificate:certificate_text", "before"),
]
QUICK_DISCOVERY = {
    ("noisegate.gate.discovery.schema_gate:read_counts", "before", "term"),
    ("noisegate.gate.discovery.findings:schema_text", "before", "int"),
}


@pytest.mark.parametrize(("stage", "when", "name"), matrix(DISCOVERY, QUICK_DISCOVERY))
def test_a_discovery(desk, play, stage, when, name):
    desk.write_rows(rows(600))
    before, found = desk.listing(), desk.folder / "found.toml"
    verb = [
        "schema",
        "discover",
        desk.data,
        "--epsilon",
        "1",
        "-o",
        found,
        "--kinds",
        "age=integer,income=ignore",
    ]
    verb[-1] += ",job=categorical,answer=boolean"
    ended = play(
        *verb,
        "--dataset",
        "clinic",
        "--ledger",
        desk.ledger,
        at=(stage, when, SIGNALS[name]),
    )
    kinds = [entry.kind.value for entry in Ledger(desk.ledger).history("clinic")][1:]
    if name == "kill":
        assert ended.code == -signal.SIGKILL
        assert "void" not in kinds and not found.exists()
        # A killed process cannot clear up: what is left says whose it is, and is in nobody's way.
        assert all(left.startswith(".found.toml.") for left in hidden(desk.folder))
        return
    assert not hidden(desk.folder)
    if ended.code == 0:  # from the first noise on it goes on to the end
        assert kinds == ["reserve", "confirm", "commit"]
        assert play("verify", "found.toml.certificate.json").code == 0
        return
    assert ended.code == 130 and desk.listing() == before
    assert kinds in ([], ["reserve", "void"]) and desk.account().spent == 0
    assert play(*verb).code == 0


# Verbs that read nothing private.

# The first second, in processes of their own.

IMPORTED = """
import os, signal, sys
class Aim:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})
aim = Aim()
sys.meta_path.insert(0, aim)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["noisegate", *{argv!r}]
from noisegate.app.cli.start import start
start()
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("typer", "int"),
        ("rich.console", "term"),
        pytest.param("numpy", "int", marks=pytest.mark.slow),
        pytest.param("numpy._core._multiarray_umath", "int", marks=pytest.mark.slow),
        pytest.param("pyarrow", "term", marks=pytest.mark.slow),
        pytest.param("torch", "int", marks=pytest.mark.slow),
        pytest.param("opendp", "term", marks=pytest.mark.slow),
    ],
)
def test_a_signal_while_the_program_is_still_loading(desk, module, name):
    before = desk.listing()
    program = IMPORTED.format(
        module=module,
        number=int(SIGNALS[name]),
        argv=[str(part) for part in desk.fit()],
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=desk.folder,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
    )
    assert ended.returncode == 130, ended.stderr
    assert "stopped" in ended.stderr and "Traceback" not in ended.stderr
    # A library that is loaded while signals wait: the run stops behind it, either side of its noise.
    kept = (desk.out.with_name("model.partial") / "certificate.json").exists()
    assert states(desk.ledger)[:2] == ((0, 1) if kept else (0, 0))
    assert kept or desk.listing() == before


def test_a_background_job_goes_on_ignoring_ctrl_c(tmp_path):
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    program += "from noisegate.app.cli import start\nimport os\n_ = os.kill(os.getpid(), signal.SIGINT)\n"
    program += "import sys; sys.argv = ['noisegate', '--version']; start.start()"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert (ended.returncode, "noisegate" in ended.stdout) == (0, True)
