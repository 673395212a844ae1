"""How far a ledger had come when this account last saw it, kept apart from it: so one that was put back is noticed.

A file in the user's state folder, named by the hash of the ledger's first row: the same for a ledger wherever it is
moved, and another one for each new ledger. Lines are added and never changed, so processes at once do no harm. Where
the file cannot be read or written, nothing is compared.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from noisegate.errors import LedgerError
from noisegate.ledger.chain import Row


class RewoundError(LedgerError):
    """A row that was seen before is not in the ledger."""


def check_seen(rows: Sequence[Row]) -> None:
    """Refuses rows, whose chain is whole, that lack one that was seen before; remembers the last of them otherwise.

    What a reservation costs is remembered before noise is drawn, as a run reads the ledger once more to confirm it.
    """
    import platformdirs

    if not rows:
        return
    path, text = platformdirs.user_state_path("noisegate", appauthor=False) / "ledgers" / rows[0].hash, ""
    with contextlib.suppress(OSError):
        text = path.read_text(encoding="ascii", errors="replace")
    seen = {int(number): digest for number, digest in re.findall(r"^(\d+) ([0-9a-f]{64})$", text, re.MULTILINE)}
    for number, digest in seen.items():
        if number > len(rows) or rows[number - 1].hash != digest:
            raise RewoundError(
                f"row {number}, which was seen before, is not in it: it was put back as it was earlier, or it is a "
                "copy of one that has gone on. What was spent since is not in it, and no budget is given from it. Use "
                f"the newest copy; if that is lost, see what {path} is for under 'The ledger' in docs/threat-model.md."
            )
    if len(rows) not in seen:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="ascii") as file:
                file.write(f"\n{len(rows)} {rows[-1].hash}\n")  # on a line of its own, after one that was cut off too
