"""AIM of dpmm."""

from contract import run
from dpmm.pipelines import AIMPipeline
from dpmm_models import fit

if __name__ == "__main__":
    run("dpmm", lambda request: fit(AIMPipeline, request))
