"""Where sums run, said on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.gate.sums import Engine

EngineOption = Annotated[
    str,
    typer.Option(metavar="local|ray", help="Where records are summed: this machine (default), or a Ray cluster."),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT|auto",
        help="With --engine ray: the head of the cluster, or auto on one of its machines. Default: processes of this "
        "machine.",
    ),
]


def chosen_engine(engine: str, address: str | None) -> Engine | None:
    """Returns where sums run; None for this machine."""
    if engine not in ("local", "ray"):
        raise OptionError(f"--engine {engine!r} must be local or ray.")
    if engine == "local":
        if address is not None:
            raise OptionError(f"--address {address} is of a Ray cluster; give --engine ray beside it.")
        return None
    from noisegate.gate.engines.ray import RayEngine

    return RayEngine(address=address)
