"""The peers: what each is installed from, in which Python, and which script asks it.

Each package of peers.toml has an environment of its own, made by uv, so that no two can disturb each other's
dependencies.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = "3.11"  # the newest that dpmm takes


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A method of another library: its package, and the script that runs it, if one could be tried."""

    package: str
    script: str | None = None


_PEERS = tomllib.loads((HERE / "peers.toml").read_text(encoding="utf-8"))
PACKAGES: dict[str, list[str]] = _PEERS["packages"]
PEERS = {name: Peer(**entry) for name, entry in _PEERS["peers"].items()}


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What became of an installation: the interpreter, or the error."""

    python: Path
    error: str


@cache
def environment(name: str, folder: Path) -> Environment:
    """Makes the environment of a package in `folder/name` unless it is there.

    A failure is an answer too. It is not kept beyond this process, since the network may have been the cause.

    Raises:
        RuntimeError: when there is no uv.
    """
    requirements = PACKAGES[name]
    home = folder / name
    python, marker = home / "bin" / "python", home / "installed.json"
    wanted = (
        json.dumps({"requirements": requirements, "python": PYTHON}, indent=2) + "\n"
    )
    if marker.exists() and marker.read_text(encoding="utf-8") == wanted:
        return Environment(python=python, error="")
    home.mkdir(parents=True, exist_ok=True)
    error = _install(home, python, requirements)
    if not error:
        marker.write_text(wanted, encoding="utf-8")
    return Environment(python=python, error=error)


def _install(home: Path, python: Path, requirements: list[str]) -> str:
    uv = shutil.which("uv") or shutil.which(
        "uv", path=HERE.parents[1] / ".venv-tools" / "bin"
    )
    if uv is None:
        raise RuntimeError(
            "uv was not found; put it on the PATH, or run `make environment` in this checkout"
        )
    steps = [
        [
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            str(python),
            *requirements,
        ]
    ]
    if not python.exists():
        steps.insert(
            0,
            [uv, "venv", "--quiet", "--allow-existing", "--python", PYTHON, str(home)],
        )
    # An active environment must not draw the installation to itself.
    variables = {
        key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"
    }
    for step in steps:
        done = subprocess.run(
            step, env=variables, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return "\n".join(
                line.strip() for line in done.stderr.splitlines() if line.strip()
            )[-2_000:]
    return ""
