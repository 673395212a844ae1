"""SIGKILL at ten thousand records in each kind of run that can go on, and what the next command makes of it.

Trainings on shards cannot, and say so before they begin.
"""

import shlex
import signal
import subprocess
import time

import pytest
from tests.journeys.conftest import RECORDS, SCRIPT
from tests.shared.patience import PATIENCE

SUMS = """--method dp-merf --set frequencies=10 --set hidden=[8] --set 'fit_options={"steps": 400, "batch": 50}'"""
STEPS = f"--method dp-gan --records {RECORDS} --set hidden=[8] --set steps=60 --set sampling_probability=0.01"
STEPS += " --set discriminator_steps=1"
BATCHES = f"--method dp-sinkhorn --records {RECORDS} --set hidden=[8] --set steps=60 --set sampling_probability=0.01"
MARGINALS = "--method mst --set iterations=400"


def release(folder):
    return (folder / "model.partial" / "certificate.json").exists() and not (
        folder / "model.partial" / "room"
    ).exists()


def some_steps(folder):
    journal = folder / "model.partial" / "steps.journal"
    return journal.exists() and journal.read_bytes().count(b".") > 3


@pytest.mark.parametrize(
    ("method", "ready", "data"),
    [
        pytest.param(SUMS, release, "", id="sums"),
        pytest.param(STEPS, some_steps, "private.csv ", id="steps"),
        pytest.param(
            BATCHES, some_steps, "private.csv ", id="batches", marks=pytest.mark.slow
        ),
        pytest.param(MARGINALS, release, "", id="marginals", marks=pytest.mark.slow),
    ],
)
def test_a_fit_that_is_killed_goes_on_at_no_further_cost(steward, method, ready, data):
    steward.types("noisegate ledger register clinic --epsilon 2")
    fit = f"noisegate fit private.csv --schema schema.toml --epsilon 1 --dataset clinic --out model {method}"
    killed_at(steward, fit, ready)
    steward.types(f"noisegate fit --resume {data}--out model")
    steward.types("noisegate verify model")
    [account] = steward.types("noisegate ledger show --json").json["accounts"]
    assert account["committed"] == 1
    assert account["reserved"] == 0
    assert account["spent"] <= 1
    assert steward.lies() == {"private.csv", "schema.toml", "model"}


def test_a_sample_that_is_killed_is_made_anew_and_leaves_nothing(steward):
    steward.types(
        "noisegate fit private.csv --schema schema.toml --epsilon 1 --out model"
    )
    command = "noisegate sample model -n 3000000 -o synthetic.csv"
    killed_at(
        steward,
        command,
        lambda folder: list(folder.glob(".synthetic.csv.*/synthetic.csv")),
    )
    assert list(steward.folder.glob(".synthetic.csv.*"))
    steward.types("noisegate sample model -n 20000 -o synthetic.csv")
    assert steward.lies() == {
        "private.csv",
        "schema.toml",
        "model",
        "synthetic.csv",
        "synthetic.csv-metadata.json",
    }


def killed_at(person, line, ready):
    """Starts a line and kills it as soon as `ready` says so of the folder."""
    command = [str(SCRIPT), *shlex.split(line)[1:]]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        command, cwd=person.folder, env=person.env, **pipes
    ) as process:
        deadline = time.monotonic() + PATIENCE
        while not ready(person.folder):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
