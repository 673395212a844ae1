"""Where sums run, beside the threads of this process (`gate.sums.LocalEngine`).

- `ray`: joins a Ray cluster, and sums by its workers.
- `ray_round`: one pass over the records; workers may be lost on the way.
"""
