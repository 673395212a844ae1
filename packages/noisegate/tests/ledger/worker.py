"""The processes of `test_ledger_races.py`: says "ready", waits for a line, then does one of the jobs below.

python worker.py PROCESSES JOB LEDGER EVENTS, with the events of one run as JSON. The processes are forked from
one that has imported everything and opened nothing, since sixteen interpreters take longer to start than to race.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import sys

from noisegate.errors import BudgetRefusedError, LedgerError, OptionError
from noisegate.ledger.ledger import Ledger
from noisegate.privacy.events import events_from_json

ATTEMPTS = 3


def race(ledger, events):
    """Reserves as often as it may; commits the first, voids none."""
    done = []
    for _ in range(ATTEMPTS):
        try:
            done.append(
                ledger.reserve(
                    "race",
                    events,
                    adjacency="add-remove",
                    purpose=f"process {os.getpid()}",
                )
            )
        except BudgetRefusedError:
            break
    for reservation in done[:1]:
        ledger.commit(reservation, certificate="a" * 64)
    return done


def confirm_or_void(ledger, events):
    """Confirms and voids every reservation, as a run and an operator do at once; returns what succeeded."""
    done = []
    for number, entry in enumerate(ledger.history("race")):
        if entry.reservation is None:
            continue
        ways = {
            "confirmed": lambda one=entry.reservation: ledger.confirm(one),
            "voided": lambda one=entry.reservation: ledger.void(
                one, reason="looks stale"
            ),
        }
        for way in sorted(ways, reverse=(number + os.getpid()) % 2 == 0):
            with contextlib.suppress(LedgerError, OptionError):
                ways[way]()
                done.append((entry.reservation, way))
    return done


def register(ledger, events):
    """Registers the data set that all processes want to register."""
    try:
        ledger.register("race", epsilon=1, delta=1e-5)
    except OptionError:
        return 0
    return 1


def killed_after(ledger, events):
    """Reserves, and is killed before it commits."""
    ledger.reserve("race", events, adjacency="add-remove", purpose="killed after")
    os.kill(os.getpid(), signal.SIGKILL)


def killed_inside(ledger, events):
    """Is killed inside the transaction, after the row was written and before the transaction ends."""
    from noisegate.ledger import tables as ledger_tables

    append = ledger_tables.TableTransaction.append

    def last_act(self, row):
        append(self, row)
        os.kill(os.getpid(), signal.SIGKILL)

    ledger_tables.TableTransaction.append = last_act
    ledger.reserve("race", events, adjacency="add-remove", purpose="killed inside")


def main():
    """Runs the job in each process and prints what each returned."""
    count, job, location, events = sys.argv[1:]
    with contextlib.suppress(LedgerError):  # none there yet
        Ledger(location).show()  # imports everything
    context = multiprocessing.get_context("fork")
    start = context.Barrier(int(count) + 1)
    answers = context.SimpleQueue()

    def run():
        ledger = Ledger(location)
        start.wait()
        answers.put(globals()[job](ledger, events_from_json(json.loads(events))))

    processes = [context.Process(target=run) for _ in range(int(count))]
    for process in processes:
        process.start()
    print("ready", flush=True)
    sys.stdin.readline()
    start.wait()
    for process in processes:
        process.join()
    print(json.dumps([process.exitcode for process in processes]), flush=True)
    print(
        json.dumps([answers.get() for process in processes if process.exitcode == 0]),
        flush=True,
    )


if __name__ == "__main__":
    main()
