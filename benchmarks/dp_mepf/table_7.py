"""Table 7 of DP-MEPF: learning rates, as the benchmarks and presets have it.

python benchmarks/dp_mepf/table_7.py
"""

import sys

from mepf_tables import settings_page

if __name__ == "__main__":
    sys.exit(settings_page(7))
