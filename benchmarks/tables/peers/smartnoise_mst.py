"""MST of smartnoise-synth."""

from contract import run
from smartnoise_models import fit

if __name__ == "__main__":
    run("smartnoise-synth", lambda request: fit("mst", request))
