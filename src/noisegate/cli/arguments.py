"""Options that several verbs share, so that they read the same everywhere; none of them may be blank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from noisegate.errors import OptionError
from noisegate.seeds import MOST_SEED

SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", help="Schema file, TOML: what is publicly known about the columns, or images."),
]
Epsilon = Annotated[float, typer.Option("--epsilon", help="ε of the guarantee, 0.01 to 1000; 1 is a common choice.")]
Delta = Annotated[float, typer.Option("--delta", help="δ of the guarantee; keep it well below 1/(number of records).")]
AdjacencyOption = Annotated[
    str,
    typer.Option(
        "--adjacency", help="add-remove (default; the number of records stays private) or replace-one (it is public)."
    ),
]
Records = Annotated[
    int | None,
    typer.Option("--records", help="Number of records if publicly known; needed for replace-one and for forecasts."),
]
UnitColumn = Annotated[
    str | None,
    typer.Option(
        "--unit-column",
        help="Column that says whose record each one is: protect all records of one unit. Not in the schema.",
    ),
]
Contributions = Annotated[
    int | None,
    typer.Option("--contributions", help="With --unit-column: how many records of a unit are used at most."),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="How to make synthetic records: auto (says what it chose), or one by name: aim, dp-cgan, dp-dre, dp-gan, "
        "dp-hp, dp-merf, dp-sinkhorn, mst, pairwise, psg; joint, dp-mepf, dp-mepf-trained, dp-mge, dp-gan-ft and "
        "dp-gan-mi for images. dp-llm trains a classifier that explains itself.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method, for instance --set cells=32."),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        metavar="FILE_OR_FOLDER",
        help="Public records of the same schema, for methods that use some, such as dp-dre. They must hold no private "
        "one.",
    ),
]
Seed = Annotated[
    int,
    typer.Option("--seed", min=0, max=MOST_SEED, help="Of the public randomness. The private noise takes no seed."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="NOISEGATE_LEDGER",
        show_envvar=True,
        help="Ledger: an SQLite file or a postgresql:// URL. Default: a file in your user data folder.",
    ),
]


def read_settings(pairs: list[str] | None) -> dict[str, Any]:
    """Returns the settings given as NAME=VALUE; values are JSON, or text when they are not.

    Raises:
        OptionError: if one has no "=".
    """
    settings: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise OptionError(f"--set {pair!r} must look like NAME=VALUE, for instance --set cells=32.")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def public_setting(path: str | None) -> dict[str, Any]:
    """Returns the setting of a method that --public stands for; none where it is not given."""
    return {} if path is None else {"public": path}


def require_schema(path: Path | None) -> Path:
    """Returns `path`, or explains why there is no way without a schema.

    Raises:
        OptionError: if it is None.
    """
    if path is None:
        raise OptionError(
            "--schema is required. Bounds, levels and missing-ness read off private data would leak it: an outlier's "
            "value, a rare diagnosis, that somebody answered at all. Write down what is publicly known; "
            "`noisegate schema init PUBLIC.csv -o schema.toml` drafts it from a file that is public. Images are "
            "described by options instead, for instance --size 28 --channels 1 --classes 10."
        )
    return path


# Images without labels have --label ''.
_MAY_BE_EMPTY = {"label"}


class Verbs(typer.core.TyperGroup):
    """A group whose verbs get no blank value, which as a path would be the current folder."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Returns the verb that is asked for, after a look at what follows it."""
        name, command, following = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, typer.core.TyperGroup):
            _check(command, command.context_class(command, info_name=name, parent=ctx), following)
        return name, command, following


def _check(command: Any, ctx: Any, following: list[str]) -> None:
    """Finds a value that is blank.

    Raises:
        OptionError: naming the option.
    """
    given, _, _ = command.make_parser(ctx).parse_args(list(following))
    for parameter in command.params:
        value = given.get(parameter.name)
        option = parameter.param_type_name == "option"
        shown = parameter.opts[0] if option else parameter.metavar or parameter.name.upper()
        texts = value if isinstance(value, list | tuple) else [value]
        blank = [text for text in texts if isinstance(text, str) and not text.strip()]
        if blank and parameter.name not in _MAY_BE_EMPTY:
            raise OptionError(f"{shown} {blank[0]!r} is empty; give a value, or leave it out.")
