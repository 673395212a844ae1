"""What a run is asked for: every option of `fit` and `plan`, declared once.

::

    Request ──► noisegate.fit, .plan, .release    keywords of Python
            ──► noisegate fit, plan, release      options, with help, bounds and panel
            ──► Run ──► training.json             what an interrupted run resumes with
                    ──► fit --log FILE            the options that stand in a log

An option is a field of `Request`: its name, its type in Python and its default. The
`Door` beside the type says what the command line reads and what its help tells, and
whether the file of a run holds the option.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from noisegate.privacy.events import RECORD, Adjacency
from noisegate.seeds import MOST_SEED

# Annotations are text where a name is imported for type checkers alone: the command
# line reads this file before it answers --help.
if TYPE_CHECKING:
    from noisegate.ledger.ledger import Ledger
    from noisegate.methods.method import Method
    from noisegate.privacy.certificate import Certificate


@dataclass(frozen=True, kw_only=True)
class Door:
    """How the command line takes an option, and where else the option goes.

    Attributes:
        help: What help says of it.
        panel: The panel of help that lists it; "" for the first.
        type: What the command line reads; None for the type of the field.
        name: How it is typed; "" for the name of the field.
        metavar: What help calls its value; None for a word that the type has.
        minimum: The least value, of a number.
        maximum: The largest value.
        environment: Variable of the environment that stands for it.
        in_plan: Whether `plan` takes it, too. All are options of `fit` and `release`.
        in_file: Whether the file of a run holds it as it is, so that the run resumes
            with it, and a log of the run tells it.
        is_local: Whether it is of one run alone, so that no published plan states it.
    """

    help: str
    panel: Literal["", "Privacy", "Data", "Method", "Pages"] = ""
    type: Any = None
    name: str = ""
    metavar: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    environment: str | None = None
    in_plan: bool = False
    in_file: bool = True
    is_local: bool = False


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a run is asked for, as its caller gave it.

    Where it is left out, an option is at its default, which asks for nothing. Help of
    the command line lists options in this order.

    Attributes:
        discovery: Certificate of the discovery that estimated the schema. The command
            line finds it beside the file of the schema.

    Examples:
        >>> from noisegate.app.request import Request
        >>> request = Request(epsilon=1.0, settings={"cells": 8}, seed=3)
        >>> request.given()
        {'epsilon': 1.0, 'settings': {'cells': 8, 'seed': 3}}
    """

    epsilon: Annotated[
        float | None,
        Door(
            help="ε of the guarantee, 0.01 to 1000.",
            panel="Privacy",
            in_plan=True,
        ),
    ] = None
    schema: Annotated[
        Any,
        Door(
            type=Path | None,
            help="Schema file, TOML: what is publicly known about the columns, or "
            "images.",
            panel="Data",
            in_plan=True,
            in_file=False,
        ),
    ] = None
    delta: Annotated[
        float,
        Door(
            help="δ of the guarantee; keep it well below 1/(number of records).",
            panel="Privacy",
            in_plan=True,
        ),
    ] = 1e-5
    method: Annotated[
        "str | Method",
        Door(
            type=str,
            help="Method: auto (the choice is explained), or a name of "
            "`noisegate methods`.",
            panel="Method",
            metavar="NAME",
            in_plan=True,
            in_file=False,
        ),
    ] = "auto"
    settings: Annotated[
        Mapping[str, Any],
        Door(
            type=list[str] | None,
            help="A setting of the method, such as --set cells=32.",
            panel="Method",
            name="--set",
            metavar="NAME=VALUE",
            in_plan=True,
            in_file=False,
        ),
    ] = field(default_factory=dict)
    adjacency: Annotated[
        Adjacency | str,
        Door(
            type=str,
            help="add-remove (default; the number of records stays private) or "
            "replace-one (it is public).",
            panel="Privacy",
            in_plan=True,
        ),
    ] = Adjacency.ADD_REMOVE
    records: Annotated[
        int | None,
        Door(
            help="Number of records if publicly known; needed for replace-one and for "
            "forecasts.",
            panel="Data",
            in_plan=True,
        ),
    ] = None
    unit_column: Annotated[
        str | None,
        Door(
            help="Column that identifies the person: protects all records of one "
            "person. Not in the schema.",
            panel="Privacy",
            in_plan=True,
        ),
    ] = None
    contributions: Annotated[
        int | None,
        Door(
            help="With --unit-column: maximum number of records used per person.",
            panel="Privacy",
            in_plan=True,
        ),
    ] = None
    unit: Annotated[
        str,
        Door(
            help="Privacy unit: what one record represents, such as patient.",
            panel="Privacy",
        ),
    ] = RECORD
    title: Annotated[
        str | None,
        Door(
            help="Title of the model, for its pages. Public.",
            panel="Pages",
        ),
    ] = None
    owner: Annotated[
        str | None,
        Door(
            help="Who is responsible for the model, such as an office and an address. Public.",
            panel="Pages",
        ),
    ] = None
    purpose: Annotated[
        str | None,
        Door(
            help="What the model is for, in one line. Public.",
            panel="Pages",
        ),
    ] = None
    dataset: Annotated[
        str | None,
        Door(
            help="Record the cost under this data set in the ledger.",
            panel="Privacy",
            is_local=True,
        ),
    ] = None
    ledger: Annotated[
        "Ledger | str | Path | None",
        Door(
            type=str | None,
            help="Ledger: an SQLite file or a postgresql:// URL. Default: a file in "
            "your user data folder.",
            panel="Privacy",
            environment="NOISEGATE_LEDGER",
            in_file=False,
            is_local=True,
        ),
    ] = None
    seed: Annotated[
        int,
        Door(
            help="Seed for non-private randomness. The private noise cannot be seeded.",
            panel="Method",
            minimum=0,
            maximum=MOST_SEED,
            in_file=False,
        ),
    ] = 0
    on_error: Annotated[
        str,
        Door(
            help="Unreadable images: refuse the run (default), or skip them; only you "
            "are told how many.",
            panel="Data",
            metavar="refuse|skip",
        ),
    ] = "refuse"
    log: Annotated[
        str | Path | None,
        Door(
            type=Path | None,
            help="Append what the run does, with times, to this text file. It tells "
            "nothing private.",
            metavar="FILE",
            in_file=False,
            is_local=True,
        ),
    ] = None
    discovery: "Certificate | None" = None

    def given(self) -> dict[str, Any]:
        """Returns the options that are not at their defaults, by name.

        A resumed run compares them with those that it began with. The seed and settings
        of a method, and its own where it is configured, are under ``settings``, which
        is always there.
        """
        options = {}
        for option in fields(self):
            value = getattr(self, option.name)
            if value != option.default:
                options[option.name] = value
        method_settings = dict(self.settings)
        if not isinstance(self.method, str):
            options["method"] = self.method.name
            method_settings = {**self.method.to_json(), **self.settings}
        seed = options.pop("seed", None)
        if seed is not None:
            method_settings["seed"] = seed
        if "adjacency" in options:
            options["adjacency"] = Adjacency.parse(self.adjacency).value
        return options | {"settings": method_settings}


def _doors() -> dict[str, Door]:
    """Returns the doors of all options, each with the type that is read."""
    options = {}
    for option in fields(Request):
        hint = get_args(option.type)
        for door in hint:
            if isinstance(door, Door):
                command_type = door.type or hint[0]
                options[option.name] = replace(door, type=command_type)
    return options


DOORS = _doors()
"""The doors of all options, by the names of their fields in `Request`."""
