"""Conditions as a shell can say them: `sex=Female`, `age>=18`, `age=18..30`."""

from __future__ import annotations

import re

from noisegate.errors import OptionError

_CONDITION = re.compile(r"\s*(.+?)\s*(>=|<=|=)\s*(.*?)\s*", re.DOTALL)


def read_conditions(texts: list[str] | None) -> dict[str, str | tuple[str | None, str | None]]:
    """Returns what each column shall be, as `Synthesizer.sample` takes it: text, or the two ends of an interval.

    Raises:
        OptionError: if a text is no condition, or two of them say the same of one column.
    """
    said: dict[str, dict[str, str]] = {}
    for text in texts or []:
        match = _CONDITION.fullmatch(text)
        if match is None or (match[2] != "=" and not match[3]):
            raise OptionError(f"--where {text!r} must look like NAME=VALUE, NAME>=VALUE or NAME<=VALUE.")
        name, sign, value = match.groups()
        signs = said.setdefault(name, {})
        if sign in signs or "=" in signs or (sign == "=" and signs):
            raise OptionError(f"--where {text!r} speaks of column {name!r} once more; say it in one condition.")
        signs[sign] = value
    return {name: signs["="] if "=" in signs else (signs.get(">="), signs.get("<=")) for name, signs in said.items()}
