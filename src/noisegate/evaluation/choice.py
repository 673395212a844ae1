"""Which classifiers an evaluation trains, and how many that makes: known before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from noisegate.errors import OptionError
from noisegate.evaluation.networks import NETWORKS, read_networks

Family = Literal["three", "twelve", "networks"]

COUNTS: Mapping[Family, int] = {"three": 3, "twelve": 12}
"""How many classifiers each fixed list trains."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A choice of classifiers.

    Attributes:
        family: "three" that serve tables best, the "twelve" of the papers, or "networks" for images.
        networks: which of them, by name; empty for the other families.
    """

    family: Family
    networks: tuple[str, ...] = ()

    def count(self, repeats: int) -> int:
        """Number of classifiers that are trained on one table.

        Args:
            repeats: how often each network is trained.
        """
        return COUNTS[self.family] if self.family != "networks" else len(self.networks) * repeats


def read_choice(classifiers: str) -> Choice:
    """Read a choice of classifiers.

    Args:
        classifiers: "three", "twelve", "networks" for all six, or names of networks separated by commas.

    Returns:
        The choice.

    Raises:
        OptionError: it is none of these.
    """
    for family in COUNTS:
        if classifiers == family:
            return Choice(family=family)
    if classifiers == "networks":
        return Choice(family="networks", networks=NETWORKS)
    known = ", ".join(name.lower() for name in NETWORKS)
    if "," not in classifiers and classifiers.strip().lower() not in known.split(", "):
        raise OptionError(
            f"classifiers is {classifiers!r}; expected 'three', 'twelve', 'networks' or, separated by commas, some of "
            f"{known}"
        )
    return Choice(family="networks", networks=read_networks(classifiers))
