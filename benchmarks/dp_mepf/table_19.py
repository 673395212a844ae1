"""Table 19 of DP-MEPF: an encoder trained by DP-SGD within the budget. See `mepf_encoders` and --help.

python benchmarks/dp_mepf/table_19.py --data DIR [--features encoder] [--steps 1000] [--json FILE]
"""

import sys

from mepf_encoders import main

if __name__ == "__main__":
    sys.exit(main(19))
