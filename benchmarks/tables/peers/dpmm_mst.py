"""MST of dpmm."""

from contract import run
from dpmm.pipelines import MSTPipeline
from dpmm_models import fit

if __name__ == "__main__":
    run("dpmm", lambda request: fit(MSTPipeline, request))
