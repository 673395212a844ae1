"""Peak memory of a process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_megabytes() -> float:
    """Returns the most memory that this process has held so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux ru_maxrss of a fresh process starts at what its parent used; VmHWM is this program's own.
        line = next(
            line
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM:")
        )
        return float(line.split()[1]) / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
