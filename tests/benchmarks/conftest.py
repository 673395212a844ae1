import sys
from pathlib import Path

TABLES = Path(__file__).parents[2] / "benchmarks" / "tables"
# The benchmark is a folder of scripts that import each other by name.
sys.path[:0] = [str(TABLES), str(TABLES / "peers")]
