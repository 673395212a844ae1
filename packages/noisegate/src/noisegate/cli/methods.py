"""`noisegate methods`: what the installed methods are, and what each can be told."""

from typing import Annotated

import typer

from noisegate.cli.console import OUT, print_json, table
from noisegate.cli.options import Json, method_names


def methods_command(
    name: Annotated[
        str | None, typer.Argument(help="Method whose settings to list.", autocompletion=method_names)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the installed methods, or the settings of one: names for --set, with defaults.

    Example: `noisegate methods pairwise`
    """
    from noisegate.methods.registry import list_methods, list_settings

    settings = None if name is None else list_settings(name)
    methods = [one for one in list_methods() if name in (None, one["name"])]
    if as_json:
        print_json({"methods": methods, **({} if settings is None else {"settings": settings})})
        return
    rows = [[one["name"], one["summary"]] for one in methods]
    OUT.print(table("Methods", {"name": "left", "what it is": "left"}, rows))
    if settings is not None:
        rows = [[one["name"], str(one["default"]), one["meaning"]] for one in settings]
        OUT.print(table("Settings", {"name": "left", "default": "left", "what it is": "left"}, rows))
