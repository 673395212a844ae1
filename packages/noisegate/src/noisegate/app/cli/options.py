"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from typer import Context, Option

from noisegate.errors import OptionError
from noisegate.privacy.events import RECORD
from noisegate.registry import extensions, one_name_each
from noisegate.seeds import MOST_SEED

if TYPE_CHECKING:
    from noisegate.app.runs.folder import Run
    from noisegate.gate.sums import Engine
    from noisegate.ledger.ledger import Ledger
    from noisegate.schema import Schema

SchemaOption = Annotated[
    Path | None,
    Option(
        help="Schema file, TOML: what is publicly known about the columns, or images."
    ),
]
Epsilon = Annotated[
    float, Option(help="ε of the guarantee, 0.01 to 1000; 1 is a common choice.")
]
Delta = Annotated[
    float, Option(help="δ of the guarantee; keep it well below 1/(number of records).")
]
Adjacency = Annotated[
    str,
    Option(
        help="add-remove (default; the number of records stays private) or replace-one (it is public)."
    ),
]
Unit = Annotated[
    str, Option(help="Privacy unit: what one record represents, such as patient.")
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the method, such as --set cells=32.",
    ),
]
Public = Annotated[
    str | None,
    Option(
        metavar="FILE_OR_FOLDER",
        help="Public records with the same schema, for methods that use them, such as dp-dre; none may be private.",
    ),
]
Json = Annotated[
    bool, Option("--json", help="Print JSON for programs instead of text for people.")
]
LedgerOption = Annotated[
    str | None,
    Option(
        envvar="NOISEGATE_LEDGER",
        show_envvar=True,
        help="Ledger: an SQLite file or a postgresql:// URL. Default: a file in your user data folder.",
    ),
]
EngineOption = Annotated[
    str,
    Option(
        metavar="local|ray",
        help="Where records are summed: this machine (default), or a Ray cluster.",
    ),
]
Address = Annotated[
    str | None,
    Option(
        metavar="HOST:PORT|auto",
        help="With --engine ray: the head of the cluster, or auto on one of its machines. Default: this machine.",
    ),
]
FOR_INFERENCE = 0.43
"""Of second moments, beside shares that sum to about 1: three tenths of all."""
_EXAMPLE = "for instance --size 28 --channels 1 --classes 10"
_of_images = partial(
    Option, rich_help_panel="Images: public knowledge, instead of --schema"
)


def method_names(incomplete: str) -> list[str]:
    """Returns the methods whose names begin so, those of other packages too, for completion by the shell."""
    return sorted(
        name
        for name in ("auto", *one_name_each("noisegate.methods"))
        if name.startswith(incomplete)
    )


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """What a schema file would say of images, said on the command line."""

    size: Annotated[
        str | None,
        _of_images(
            metavar="N|HEIGHT,WIDTH", help="Height and width in pixels: 28, or 32,48."
        ),
    ] = None
    channels: Annotated[
        int | None, _of_images(help="1 for grey (default), 3 for colour.")
    ] = None
    classes: Annotated[
        str | None,
        _of_images(
            metavar="N|NAME,NAME,...",
            help="All possible labels: 10 for 0 to 9, or their names, as in cat,dog.",
        ),
    ] = None
    label: Annotated[
        str | None,
        _of_images(
            help="Name of the label column, in DATA (Parquet) and in the output. Default: label."
        ),
    ] = None
    unlabelled: Annotated[
        bool,
        _of_images(
            "--unlabelled", help="The images have no labels; so does --label ''."
        ),
    ] = False
    resize: Annotated[
        str | None,
        _of_images(
            metavar="RULE",
            help="Images of another size: refuse (default), stretch, crop or pad.",
        ),
    ] = None
    convert: Annotated[
        bool,
        _of_images(
            "--convert", help="Turn colour into grey, or grey into colour, as needed."
        ),
    ] = False

    def given(self) -> dict[str, Any]:
        """Returns the options that describe images and were given, by name."""
        given = {
            field.name: getattr(self, field.name) for field in fields(ImageOptions)
        }
        return {
            name: value
            for name, value in given.items()
            if value is not None and value is not False
        }

    def written(self) -> str:
        """Returns them as they stand on a command line."""
        given = self.given().items()
        return " ".join(
            f"--{name}" if value is True else f"--{name} {value}"
            for name, value in given
        )

    def described(self) -> Schema:
        """Returns the schema of images that they describe."""
        from noisegate.schema import pixel_schema

        if self.size is None:
            raise OptionError(
                f"{self.written()} describes images, whose --size is missing; {_EXAMPLE}."
            )
        sides = [side.strip() for side in self.size.split(",")]
        if len(sides) > 2 or not all(
            side.isascii() and side.isdecimal() for side in sides
        ):
            raise OptionError(
                f"--size {self.size!r} must be a number of pixels, as 28, or HEIGHT,WIDTH, as 32,48."
            )
        height, width = int(sides[0]), int(sides[-1])
        rules: dict[str, Any] = {
            name: value
            for name, value in self.given().items()
            if name in ("resize", "convert")
        }
        channels = 1 if self.channels is None else self.channels
        if channels not in (1, 3):
            raise OptionError(
                f"--channels {channels} must be 1 for grey or 3 for colour."
            )
        if self.unlabelled or self.label == "":
            if self.classes is not None or self.label:
                cure = "leave them out."
                raise OptionError(
                    f"--unlabelled: images without labels have no --classes and no --label; {cure}"
                )
            return pixel_schema(height, width, channels, labels=None, **rules)
        if self.classes is None:
            raise OptionError(
                "--classes is missing: which labels there may be is public knowledge; read off private images it would "
                "tell that somebody has a rare one. Give their number or their names, or --unlabelled."
            )
        label = "label" if self.label is None else self.label
        return pixel_schema(
            height, width, channels, labels=_labels(self.classes), label=label, **rules
        ).usable()


@dataclass(frozen=True, kw_only=True)
class RunOptions(ImageOptions):
    """What a plan and a fit are told alike."""

    schema: SchemaOption = None
    delta: Delta = 1e-5
    method: Annotated[
        str,
        Option(
            help="Method: auto (the choice is explained), or a name of `noisegate methods`.",
            metavar="NAME",
            autocompletion=method_names,
        ),
    ] = "auto"
    public: Public = None
    adjacency: Adjacency = "add-remove"
    records: Annotated[
        int | None,
        Option(
            help="Number of records if publicly known; needed for replace-one and for forecasts."
        ),
    ] = None
    unit_column: Annotated[
        str | None,
        Option(
            help="Column that identifies the person: protects all records of one person. Not in the schema."
        ),
    ] = None
    contributions: Annotated[
        int | None,
        Option(help="With --unit-column: maximum number of records used per person."),
    ] = None
    report_share: Annotated[
        float | None,
        Option(
            help="With pairwise: budget share, such as 0.05, of counts held out of the fit, by which the public page "
            "scores the copy; the other shares sum to about 1."
        ),
    ] = None
    for_inference: Annotated[
        bool,
        Option(
            "--for-inference",
            help="With pairwise: three tenths of the budget for second moments of all columns, from which `infer` "
            'answers more exactly; --set moments=["age","wage"] for some of them.',
        ),
    ] = False
    analyses: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With pairwise: a TOML file of [[analyses]], each a query for `infer`, or kind, outcome and terms. "
            "The budget goes to their columns, and `plan` predicts the precision of the answers.",
        ),
    ] = None
    settings: Settings = None

    @property
    def book(self) -> Ledger | None:
        """The ledger that records the cost; None where none is named."""
        return None

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings of the method that were given."""
        given = ["--for-inference"] * self.for_inference + ["--analyses"] * (
            self.analyses is not None
        )
        if given and self.method not in ("auto", "pairwise"):
            raise OptionError(
                f"{given[0]} belongs to pairwise, and --method is {self.method}; omit one of them."
            )
        share = {} if self.report_share is None else {"report_share": self.report_share}
        share |= {"moments_share": FOR_INFERENCE} if self.for_inference else {}
        if self.analyses is not None:
            from noisegate.app.analyses import settings_for

            share |= settings_for(self.analyses)
        return {**share, **method_settings(self.settings, self.public)}

    def known(self) -> Any:
        """Returns the schema in a file, of one table or of linked ones, or the one that the options describe."""
        from noisegate.schema.pixels import check_machine_memory, estimated_fit_bytes
        from noisegate.schema.schema import is_linked, read_schema

        if self.given() and self.schema is not None:
            cure = "leave one of them out. (`noisegate schema init --images` writes the options into a file.)"
            raise OptionError(
                f"--schema {self.schema} and {self.written()} both describe the records; {cure}"
            )
        schema = (
            self.described()
            if self.given()
            else read_schema(require_schema(self.schema))
        )
        if not is_linked(schema) and schema.images is not None:
            check_machine_memory(
                schema.images.shape,
                estimated_fit_bytes(schema.images.shape),
                "a fit to them",
            )
        return schema

    def run(self, epsilon: float | None) -> Run:
        """Returns what they ask for."""
        from noisegate.app.runs.folder import Run

        schema = self.known()
        asked = {
            name: value
            for name, value in vars(self).items()
            if name in Run.__dataclass_fields__
        }
        asked |= {
            "schema": self.schema or schema,
            "epsilon": required(epsilon, "--epsilon"),
            "ledger": self.book,
        }
        settings = {"seed": getattr(self, "seed", 0), **self.chosen}
        return Run.of(settings=settings, **{"unit": RECORD, "dataset": None, **asked})


@dataclass(frozen=True, kw_only=True)
class FitOptions(RunOptions):
    """What a fit is told beside it."""

    unit: Unit = "record"
    dataset: Annotated[
        str | None, Option(help="Record the cost under this data set in the ledger.")
    ] = None
    ledger: LedgerOption = None
    seed: Annotated[
        int,
        Option(
            min=0,
            max=MOST_SEED,
            help="Seed for non-private randomness. The private noise has no seed.",
        ),
    ] = 0
    on_error: Annotated[
        str,
        Option(
            metavar="refuse|skip",
            help="Unreadable images: refuse the run (default), or skip them; only you are told how many.",
        ),
    ] = "refuse"

    @property
    def book(self) -> Ledger | None:
        """The ledger that records the cost; None without a data set."""
        from noisegate.ledger.ledger import Ledger

        return None if self.dataset is None else Ledger(self.ledger)

    def typed(self, context: Context) -> dict[str, Any]:
        """Returns the options that stand on the command line; those that describe images are a schema."""
        images = self.given()
        typed: dict[str, Any] = {
            name: value
            for name, value in context.params.items()
            if getattr(context.get_parameter_source(name), "name", None)
            == "COMMANDLINE"
            and name not in images
        }
        settings = self.chosen | {name: self.seed for name in typed if name == "seed"}
        for name in ("seed", "public", "report_share", "for_inference", "analyses"):
            typed.pop(name, None)
        return (
            typed
            | {"settings": settings}
            | ({"schema": self.known()} if images else {})
        )


_Verb = TypeVar("_Verb", bound=Callable[..., Any])
_T = TypeVar("_T")


def one_by_one(verb: _Verb) -> _Verb:
    """Returns a verb whose parameter `options`, a dataclass, stands on the command line as its fields."""
    signature = inspect.signature(verb, eval_str=True)
    kind = signature.parameters["options"].annotation
    hints, options = get_type_hints(kind, include_extras=True), []
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        options.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=hints[field.name],
            )
        )
    shown = []
    for name, one in signature.parameters.items():
        shown += (
            options
            if name == "options"
            else [one.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        )

    @wraps(verb)
    def command(**given: Any) -> Any:
        return verb(
            options=kind(**{one.name: given.pop(one.name) for one in options}), **given
        )

    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in shown}
    return command  # type: ignore[return-value]


def method_settings(pairs: list[str] | None, public: str | None) -> dict[str, Any]:
    """Returns the settings given as NAME=VALUE, whose values are JSON, or text when they are not, and --public."""
    settings: dict[str, Any] = {} if public is None else {"public": public}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise OptionError(
                f"--set {pair!r} must look like NAME=VALUE, for instance --set cells=32."
            )
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def chosen_engine(engine: str, address: str | None) -> Engine | None:
    """Returns where sums run; None for this machine."""
    added = extensions("noisegate.engines")
    known = ("local", "ray", *added)
    if engine not in known:
        raise OptionError(f"--engine {engine!r} must be {' or '.join(known)}.")
    if engine == "local":
        if address is not None:
            raise OptionError(f"--address {address} needs --engine ray as well.")
        return None
    if engine == "ray":
        from noisegate.gate.engines.ray import RayEngine

        return RayEngine(address=address)
    engine_class: Callable[..., Engine] = added[engine].load()
    return engine_class(address=address)


def by_table(tables: Sequence[str]) -> dict[str, str]:
    """Returns the paths given as --table NAME=PATH."""
    found: dict[str, str] = {}
    for text in tables:
        name, equals, path = (part.strip() for part in text.partition("="))
        if not equals or not name or not path:
            raise OptionError(
                f"--table {text!r} must look like NAME=PATH, for instance --table visits=2024/visits.csv."
            )
        if name in found:
            raise OptionError(f"--table names {name!r} twice; give one path for it.")
        found[name] = path
    return found


def required(value: _T | None, what: str) -> _T:
    """Returns `value`, without which there is no fit."""
    if value is None:
        raise OptionError(
            f"{what} is missing; for instance: noisegate fit data.csv --schema schema.toml --epsilon 1 --out model"
        )
    return value


def require_schema(path: Path | None) -> Path:
    """Returns `path`, or explains why there is no way without a schema."""
    if path is None:
        raise OptionError(
            "--schema is required. Bounds, levels and missing-ness read off private data would leak it: an outlier's "
            "value, a rare diagnosis, that somebody answered at all. Write down what is publicly known; "
            "`noisegate schema init PUBLIC.csv -o schema.toml` drafts it from a file that is public. Images are "
            f"described by options instead, {_EXAMPLE}."
        )
    return path


def _labels(text: str) -> list[str] | list[int]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise OptionError(
            f"--classes {text!r}: a name is empty; give a number, or names as in cat,dog."
        )
    numbers = all(name.isascii() and name.isdecimal() for name in names)
    if len(names) > 1:
        return [int(name) for name in names] if numbers else names
    if not numbers or int(text) < 1:
        raise OptionError(
            f"--classes {text!r} must be the number of labels, 1 or more, or all their names: cat,dog."
        )
    return list(range(int(text)))
