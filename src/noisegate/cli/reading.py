"""What the operator is told of the files that will be read, and what is not written among them."""

from __future__ import annotations

import os
from pathlib import Path

from noisegate.cli.console import say
from noisegate.errors import OptionError

_MOST = 20


def say_files(data: str | Path) -> None:
    """Says which files a folder of tables stands for: one that does not belong there would be read with the others.

    Raises:
        DataError: if there is nothing that can be read.
    """
    from noisegate.data.files import find_files

    path = Path(data)
    names = [origin.name for origin in find_files(path)]
    if path.is_dir():
        more = [f"and {len(names) - _MOST:,} more"] if len(names) > _MOST else []
        say(f"{path} is read as one table of {len(names):,} files: {', '.join([*names[:_MOST], *more])}")


def check_outside(out: Path, data: str | Path) -> None:
    """Checks that what is made does not come to lie among the records, where the next run would meet it.

    Raises:
        OptionError: if `out` is in the folder `data`, or is that folder.
    """
    folder, made = os.path.realpath(data), os.path.realpath(out)
    if os.path.isdir(folder) and os.path.commonpath([folder, made]) == folder:
        raise OptionError(
            f"--out {out}: lies in {data}, among the records, and would be read with them; choose another place."
        )
