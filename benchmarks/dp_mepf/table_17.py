"""Table 17 of DP-MEPF: encoders. See `mepf_encoders` and --help.

python benchmarks/dp_mepf/table_17.py --data DIR [--features encoder] [--steps 1000] [--json FILE]
"""

import sys

from mepf_encoders import main

if __name__ == "__main__":
    sys.exit(main(17))
