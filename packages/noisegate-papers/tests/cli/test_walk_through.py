"""What the quick start tells a stranger to type works as it is written, and the demos; the README is a journey."""

import json
import re
import shlex
from functools import partialmethod
from pathlib import Path

import pytest
from PIL import Image

from noisegate.app.demo import _FILES_OF_IMAGES
from noisegate_images import demo
from noisegate_images.training.fit import FitSettings
from noisegate_papers.methods.dp_llm import DPLLM
from noisegate_papers.methods.dp_merf import DPMERF

ROOT = Path(__file__).parents[4]
PAGES = ["docs/quickstart.md"]


def _blocks(page, language):
    blocks = re.findall(
        r"^```(\w*)\n(.*?)^```$",
        (ROOT / page).read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    return [text for named, text in blocks if named == language]


def _commands(page):
    lines = (
        line
        for block in _blocks(page, "")
        for line in block.replace("\\\n", "").splitlines()
    )
    return [
        shlex.split(line, comments=True)[1:]
        for line in lines
        if line.startswith("noisegate ")
    ]


@pytest.fixture
def quick(monkeypatch):
    """Makes the defaults small, so that commands can run exactly as they are written."""
    for settings, defaults in (
        (FitSettings, {"steps": 10}),
        (DPMERF, {"frequencies": 10}),
        (DPLLM, {"steps": 3}),
    ):
        made = partialmethod(settings.__init__, **defaults)
        monkeypatch.setattr(settings, "__init__", made)


@pytest.fixture
def shelf(tmp_path, monkeypatch, quick):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOISEGATE_LEDGER", raising=False)
    return tmp_path


@pytest.mark.slow  # the README's are a journey
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of(page, shelf, cli):
    commands = _commands(page)
    assert {command[0] for command in commands} >= {
        "example",
        "schema",
        "plan",
        "fit",
        "sample",
        "evaluate",
        "verify",
    }
    for command in commands:
        ended = cli(*command)
        assert ended.code == 0, (command, ended.err)
    assert len((shelf / "synthetic.csv").read_text().splitlines()) == 16_001


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of(page, shelf, cli, capsys):
    register = [command for command in _commands(page) if "register" in command]
    for command in (["example", "trial"], *register):
        assert cli(*command).code == 0
    blocks = _blocks(page, "python")
    assert blocks
    for block in blocks:
        names = {}
        exec(compile(block, page, "exec"), names)
        assert names["synthesizer"].sample(5).shape == (5, 7)
    assert cli("verify", "second-model").code == 0
    assert (
        cli("ledger", "show", "--ledger", "ledger.db", "--json").json["accounts"][0][
            "committed"
        ]
        == 1
    )


def test_the_demo(shelf, cli):
    ended = cli("demo", "--out", "demo")
    assert ended.code == 0 and "NOT covered" in " ".join(
        ended.out.replace("│", " ").split()
    )
    assert cli("verify", "demo/model").code == 0
    written = "demo.json private.html public.html schema.toml survey-kept-aside.csv survey.csv synthetic.csv"
    assert {path.name for path in (shelf / "demo").iterdir()} == {
        "model",
        *written.split(),
    }
    assert (
        "NOT covered"
        in json.loads((shelf / "demo" / "demo.json").read_text())["caveat"]
    )
    (shelf / "demo" / "thesis.txt").write_text("mine")
    assert (
        cli("demo", "--out", "demo").code == 2
        and (shelf / "demo" / "thesis.txt").read_text() == "mine"
    )
    (shelf / "demo" / "thesis.txt").unlink()
    assert cli("demo", "--out", "demo").code == 0
    assert not [path for path in shelf.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_the_demo_of_images(shelf, cli, monkeypatch):
    few = dict(
        pixels=20,
        orientations=20,
        wavelets=20,
        channels=(4, 2),
        fit_options={"steps": 3, "batch": 20},
    )
    monkeypatch.setattr(demo, "SETTINGS", few)
    # As many are made as the noisy count says, whose noise has a standard deviation of 120: of few there may be none.
    monkeypatch.setattr(demo, "COUNT", 800)
    monkeypatch.setattr(demo, "ASIDE", 40)
    ended = cli("demo", "--images", "--epsilon", "2")
    assert ended.code == 0, ended.err
    made = shelf / "noisegate-demo-images"
    assert {path.name for path in made.iterdir()} == _FILES_OF_IMAGES and cli(
        "verify", made / "model"
    ).code == 0
    with (
        Image.open(made / "synthetic.png") as shown,
        Image.open(made / "drawn.png") as drawn,
    ):
        assert shown.size == drawn.size
    # What it says of the digits is what anyone can do with them.
    few = [
        "--epsilon",
        "1",
        "--set",
        "pixels=5",
        "--set",
        "orientations=5",
        "--set",
        "wavelets=5",
    ]
    described = ["--schema", made / "images.toml", *few]
    assert cli("plan", *described).code == 0
    assert cli("demo", "--out", made).code == 2, (
        "a demo of images is no earlier demo of a survey"
    )
    assert cli("demo", "--images", "--epsilon", "2", "--out", made, "--json").json
