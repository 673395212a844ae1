"""AIM of OpenDP."""

import opendp.prelude as dp
from contract import run
from opendp_models import fit

if __name__ == "__main__":
    run("opendp", lambda request: fit(dp.mbi.AIM(), request))
