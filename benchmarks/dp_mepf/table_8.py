"""Table 8 of DP-MEPF: what is fixed, as the benchmarks and presets have it.

python benchmarks/dp_mepf/table_8.py
"""

import sys

from mepf_tables import settings_page

if __name__ == "__main__":
    sys.exit(settings_page(8))
