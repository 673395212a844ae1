import sys
from pathlib import Path

# The planted bugs are those of the benchmark, a folder of scripts that import each other by name.
sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks" / "audit"))
