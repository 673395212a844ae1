"""Table 5 of DP-MEPF: CIFAR-10. See `mepf_tables` and --help.

python benchmarks/dp_mepf/table_5.py --data DIR [--epsilon 1] [--moments 2] [--preset small] [--json FILE]
"""

import sys

from mepf_tables import main

if __name__ == "__main__":
    sys.exit(main(5))
