"""PrivBayes of dpmm."""

from contract import run
from dpmm.pipelines import PrivBayesPipeline
from dpmm_models import fit

if __name__ == "__main__":
    run("dpmm", lambda request: fit(PrivBayesPipeline, request))
