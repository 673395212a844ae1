"""Table 3 of DP-MEPF: CelebA. See `mepf_tables` and --help.

python benchmarks/dp_mepf/table_3.py --data DIR [--epsilon 1] [--moments 2] [--preset small] [--json FILE]
"""

import sys

from mepf_tables import main

if __name__ == "__main__":
    sys.exit(main(3))
