"""Whether two versions sum alike on this machine: ``python -m tests.golden.compare REVISION [FIT ...]``.

The sums of the working tree and of the revision, each by its own code and its own tests/golden, must be equal bit for
bit; a fit that only one of them has is left out. It ends with 1 where they are not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
WRITE = """
import sys
from pathlib import Path
import numpy, noisegate
from tests.golden import sums
assert Path(noisegate.__file__).is_relative_to(Path.cwd()), noisegate.__file__
arrays = {}
for fit in sys.argv[2:] or sums.cases():
    arrays |= sums.sums_of(fit)
numpy.savez(sys.argv[1], **arrays)
"""


def written(tree: Path, out: Path, fits: list[str]) -> dict[str, np.ndarray]:
    """Returns the sums by the code in `tree`."""
    # Before the installed package.
    where = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            map(str, [*tree.glob("packages/*/src"), tree / "src"])
        ),
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run(
        [sys.executable, "-c", WRITE, str(out), *fits], cwd=tree, env=where, check=True
    )
    return dict(np.load(out))


def main(revision: str, fits: list[str]) -> int:
    """Returns the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        other = folder / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run(
            [*git, "add", "--quiet", "--detach", str(other), revision], check=True
        )
        try:
            before = written(other, folder / "before.npz", fits)
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
        after = written(ROOT, folder / "after.npz", fits)
    both = {array.split("/")[0] for array in before} & {
        array.split("/")[0] for array in after
    }
    names = sorted(array for array in {*before, *after} if array.split("/")[0] in both)
    unlike = [
        array
        for array in names
        if not np.array_equal(before.get(array, np.nan), after.get(array, np.nan))
    ]
    for array in unlike:
        print(f"{array}: {_difference(before.get(array), after.get(array))}")
    print(
        f"{len(names) - len(unlike)} of {len(names)} sums of {len(both)} fits are equal, bit for bit."
    )
    return int(bool(unlike) or not names)


def _difference(before: np.ndarray | None, after: np.ndarray | None) -> str:
    if before is None or after is None:
        return f"only {'now' if before is None else 'before'}"
    if before.shape != after.shape:
        return f"was {before.shape}, is {after.shape}"
    far = np.abs(after - before)
    return (
        f"{(far > 0).sum()} of {far.size} numbers differ, by at most {far.max()} units"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
