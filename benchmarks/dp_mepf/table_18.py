"""Table 18 of DP-MEPF: public sets that the encoder was trained on. See `mepf_encoders` and --help.

python benchmarks/dp_mepf/table_18.py --data DIR [--features encoder] [--steps 1000] [--json FILE]
"""

import sys

from mepf_encoders import main

if __name__ == "__main__":
    sys.exit(main(18))
