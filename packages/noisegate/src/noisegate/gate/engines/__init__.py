"""Where sums run, beside the threads of this process (`noisegate.gate.sums.LocalEngine`)."""
