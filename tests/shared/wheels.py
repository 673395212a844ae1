"""Builds the packages as a release does: a wheel from each source distribution."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "noisegate",
    "noisegate-images",
    "noisegate-evaluate",
    "noisegate-papers",
)


def done(*command, cwd=None, timeout=500):
    """Runs a command that must succeed; returns all that it printed."""
    ended = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    return ended.stdout + ended.stderr


def build_packages(folder):
    """Returns the wheel and the source distribution of each package, by its name."""
    built = {}
    for name in PACKAGES:
        out = folder / name
        package = ROOT / "packages" / name
        done(sys.executable, "-m", "build", "--outdir", out, package)
        [wheel] = out.glob("*.whl")
        [source] = out.glob("*.tar.gz")
        built[name] = (wheel, source)
    return built
