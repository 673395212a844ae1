"""How long tests wait, and how work is bounded without a clock: neither may depend on how busy the machine is."""

import sys
from contextlib import contextmanager

PATIENCE = 300
"""Seconds that a test waits for another process before it says that this hangs; no test passes by waiting."""


@contextmanager
def at_most_calls(limit):
    """Fails where the code inside calls more than `limit` functions: a search that explodes, a loop over all columns.

    Calls are counted in this thread, those of built-in functions among them.
    """
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > limit:
            sys.setprofile(None)
            raise AssertionError(f"more than {limit:,} calls")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
