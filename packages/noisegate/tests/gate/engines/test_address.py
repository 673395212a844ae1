"""`fit --engine ray --address` joins a cluster that was started apart."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.shared.patience import PATIENCE

pytestmark = pytest.mark.slow
PROGRAM = "import sys; from noisegate.app.cli.main import run; sys.argv[0] = 'noisegate'; run()"


ENVIRONMENT = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}


@pytest.fixture
def head(tmp_path):
    """The address of a cluster of two cores that asks for a token, which ends with the test."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        Path(sys.executable).with_name("ray"),
        "start",
        "--head",
        f"--port={port}",
        "--num-cpus=2",
        "--block",
    ]
    command += [
        "--include-dashboard=false",
        f"--object-store-memory={2**27}",
        "--disable-usage-stats",
    ]
    with (tmp_path / "head.log").open("wb") as log:
        ray = subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT)
    try:
        end = time.monotonic() + PATIENCE
        log = tmp_path / "head.log"
        while (
            ray.poll() is None
            and time.monotonic() < end
            and "Ray runtime started" not in log.read_text()
        ):
            time.sleep(0.5)
        if "Ray runtime started" not in log.read_text():
            pytest.skip(
                "too much runs on this machine: Ray's own processes gave each other up"
            )
        yield f"127.0.0.1:{port}"
    finally:
        ray.terminate()
        ray.wait(PATIENCE)


def test_a_fit_joins_a_cluster_and_leaves_it_as_it_was(
    head, people, mixed_schema, tmp_path
):
    people(400).to_csv(tmp_path / "x.csv", index=False)
    mixed_schema.to_toml(tmp_path / "schema.toml")

    def fit(name, *options, environment=ENVIRONMENT):
        command = [
            "fit",
            tmp_path / "x.csv",
            "--schema",
            tmp_path / "schema.toml",
            "--epsilon",
            "1000",
            "--json",
        ]
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            *command,
            "--method",
            "pairwise",
            "--out",
            tmp_path / name,
            *options,
        ]
        return subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )

    stranger = fit(
        "x",
        "--engine",
        "ray",
        "--address",
        head,
        environment={**ENVIRONMENT, "RAY_AUTH_TOKEN": "1" * 64},
    )
    assert stranger.returncode == 2
    assert "RAY_AUTH_MODE=token" in json.loads(stranger.stdout)["error"]
    here = fit("here")
    there = fit("there", "--engine", "ray", "--address", head)
    assert here.returncode == there.returncode == 0, here.stderr + there.stderr
    here = json.loads(here.stdout)
    there = json.loads(there.stdout)
    assert here["certificate"]["events"] == there["certificate"]["events"]
    assert here["noisy_records"] == pytest.approx(there["noisy_records"], abs=2)
