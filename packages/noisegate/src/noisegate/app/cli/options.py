"""Options that several verbs share, so that they read the same everywhere.

An option that a few verbs have is an annotated type, as `Json`. Those that describe one
run are fields of a dataclass, each with its type, default and help::

    Request          --method, --dataset ...    what a run is asked for (`app.request`)
    ImageOptions     --size, --classes ...      a schema of images, without a file
    SettingOptions   --public, --analyses ...   settings of a method, without --set
        │
    FitOptions, PlanOptions                     all of them, as verbs take them

A verb takes such a class as its parameter `options`; `expand_options` puts the options
on its command line.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeVar,
    cast,
    get_type_hints,
)

from typer import Context, Option

from noisegate.app.request import DOORS, Door, Request
from noisegate.atomic import without_password
from noisegate.errors import OptionError
from noisegate.registry import extensions, one_name_each

if TYPE_CHECKING:
    from noisegate.app.runs.folder import Run
    from noisegate.gate.sums import Engine
    from noisegate.ledger.ledger import Ledger
    from noisegate.schema import Schema
    from noisegate.schema.pixels import Resize

_Verb = TypeVar("_Verb", bound=Callable[..., Any])
_T = TypeVar("_T")


def method_names(incomplete: str) -> list[str]:
    """Returns the methods whose names begin with a text, for completion by the shell.

    Args:
        incomplete: What was typed of the name so far.

    Returns:
        Names of methods of all installed packages, and "auto"; in alphabetical order.
    """
    return sorted(
        name
        for name in ("auto", *one_name_each("noisegate.methods"))
        if name.startswith(incomplete)
    )


def _declared_option(name: str) -> Any:
    """Returns an option of `Request` as Typer takes it."""
    door = DOORS[name]
    typed_names = [door.name] if door.name else []
    if door.type is bool:
        # Else Typer would add the opposite, as in --no-json.
        typed_names = [f"--{name.replace('_', '-')}"]
    return Option(
        *typed_names,
        help=door.help,
        metavar=door.metavar,
        min=door.minimum,
        max=door.maximum,
        envvar=door.environment,
        autocompletion=method_names if name == "method" else None,
    )


SchemaOption = Annotated[Path | None, _declared_option("schema")]
Delta = Annotated[float, _declared_option("delta")]
Adjacency = Annotated[str, _declared_option("adjacency")]
Unit = Annotated[str, _declared_option("unit")]
Settings = Annotated[list[str] | None, _declared_option("settings")]
LedgerOption = Annotated[str | None, _declared_option("ledger")]
LogOption = Annotated[Path | None, _declared_option("log")]
Epsilon = Annotated[
    float, Option(help="ε of the guarantee, 0.01 to 1000; 1 is a common choice.")
]
Public = Annotated[
    str | None,
    Option(
        metavar="FILE_OR_FOLDER",
        help="Public records with the same schema, for methods that use them, such as "
        "dp-dre; none may be private.",
    ),
]
Json = Annotated[
    bool, Option("--json", help="Print JSON for programs instead of text for people.")
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
        help="With --engine ray: the head of the cluster, or auto on one of its "
        "machines. Default: this machine.",
    ),
]
_MOMENTS_SHARE = 0.43
"""Budget share that --for-inference gives to second moments. The other shares sum to
about 1, so it is three tenths of all."""
_IMAGES_EXAMPLE = "for instance --size 28 --channels 1 --classes 10"
_ImageOption = partial(
    Option, rich_help_panel="Images: public knowledge, instead of --schema"
)


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """What a schema file would state of images, stated on the command line.

    Examples:
        >>> from noisegate.app.cli.options import ImageOptions
        >>> options = ImageOptions(size="28", classes="cat,dog", convert=True)
        >>> options.as_typed()
        '--size 28 --classes cat,dog --convert'
        >>> options.to_schema().images.labels
        ('cat', 'dog')
    """

    size: Annotated[
        str | None,
        _ImageOption(
            metavar="N|HEIGHT,WIDTH", help="Height and width in pixels: 28, or 32,48."
        ),
    ] = None
    channels: Annotated[
        int | None, _ImageOption(help="1 for grey (default), 3 for colour.")
    ] = None
    classes: Annotated[
        str | None,
        _ImageOption(
            metavar="N|NAME,NAME,...",
            help="All possible labels: 10 for 0 to 9, or their names, as in cat,dog.",
        ),
    ] = None
    label: Annotated[
        str | None,
        _ImageOption(
            help="Name of the label column, in DATA (Parquet) and in the output. "
            "Default: label."
        ),
    ] = None
    unlabelled: Annotated[
        bool,
        _ImageOption(
            "--unlabelled", help="The images have no labels; so does --label ''."
        ),
    ] = False
    resize: Annotated[
        str | None,
        _ImageOption(
            metavar="RULE",
            help="Images of another size: refuse (default), stretch, crop or pad.",
        ),
    ] = None
    convert: Annotated[
        bool,
        _ImageOption(
            "--convert", help="Turn colour into grey, or grey into colour, as needed."
        ),
    ] = False

    def specified(self) -> dict[str, Any]:
        """Returns the options that describe images and were specified, by name.

        An option of a subclass, such as `method`, describes no images.
        """
        values = {
            field.name: getattr(self, field.name) for field in fields(ImageOptions)
        }
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False
        }

    def as_typed(self) -> str:
        """Returns the specified options as they stand on a command line."""
        words = []
        for name, value in self.specified().items():
            is_flag = value is True
            words.append(f"--{name}" if is_flag else f"--{name} {value}")
        return " ".join(words)

    def to_schema(self) -> Schema:
        """Returns the schema of images that the options describe.

        Raises:
            OptionError: if one is missing, has an unusable value, or contradicts
                another.
        """
        from noisegate.schema import pixel_schema

        height, width = self._image_sides()
        channels = 1 if self.channels is None else self.channels
        if channels not in (1, 3):
            raise OptionError(
                f"--channels {channels} must be 1 for grey or 3 for colour."
            )
        labels = self._labels()
        resize = "refuse" if self.resize is None else self.resize
        schema = pixel_schema(
            height,
            width,
            channels,
            labels=labels,
            label="label" if self.label is None else self.label,
            resize=cast("Resize", resize),  # the schema refuses any other word
            convert=self.convert,
        )
        return schema if labels is None else schema.usable()

    def _image_sides(self) -> tuple[int, int]:
        """Returns the height and width in pixels that --size states."""
        if self.size is None:
            raise OptionError(
                f"{self.as_typed()} describes images, whose --size is missing; "
                f"{_IMAGES_EXAMPLE}."
            )
        sides = [side.strip() for side in self.size.split(",")]
        are_numbers = all(side.isascii() and side.isdecimal() for side in sides)
        if len(sides) > 2 or not are_numbers:
            raise OptionError(
                f"--size {self.size!r} must be a number of pixels, as 28, or "
                "HEIGHT,WIDTH, as 32,48."
            )
        # One number is the side of a square.
        return int(sides[0]), int(sides[-1])

    def _labels(self) -> list[str] | list[int] | None:
        """Returns every label that an image may have; None if images have none."""
        has_no_labels = self.unlabelled or self.label == ""
        if has_no_labels:
            if self.classes is not None or self.label:
                raise OptionError(
                    "--unlabelled: images without labels have no --classes and no "
                    "--label; leave them out."
                )
            return None
        if self.classes is None:
            raise OptionError(
                "--classes is missing: the possible labels are public knowledge; "
                "read off private images, they would reveal that somebody has a "
                "rare one. Give their number or their names, or --unlabelled."
            )
        return _parse_labels(self.classes)


@dataclass(frozen=True, kw_only=True)
class SettingOptions:
    """Options that stand for settings of a method, beside --set."""

    public: Public = None
    report_share: Annotated[
        float | None,
        Option(
            help="With pairwise: budget share, such as 0.05, of counts held out of the "
            "fit, by which the public page scores the copy; the other shares sum to "
            "about 1."
        ),
    ] = None
    for_inference: Annotated[
        bool,
        Option(
            "--for-inference",
            help="With pairwise: spend three tenths of the budget on second moments of "
            "all columns, which makes `infer` more precise; --set "
            'moments=["age","wage"] for some of them.',
        ),
    ] = False
    analyses: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With pairwise: a TOML file of [[analyses]], each a query for "
            "`infer`, or kind, outcome and terms. The budget goes to their columns, "
            "and `plan` predicts the precision of the answers.",
        ),
    ] = None

    def to_settings(self, method: str, pairs: list[str] | None) -> dict[str, Any]:
        """Returns the settings of the method, of --set and of these options.

        Args:
            method: Value of --method.
            pairs: Values of --set, which go before those of other options.

        Raises:
            OptionError: if an option belongs to another method than --method, or a
                value cannot be read.
        """
        pairwise_options = []
        if self.for_inference:
            pairwise_options.append("--for-inference")
        if self.analyses is not None:
            pairwise_options.append("--analyses")
        if pairwise_options and method not in ("auto", "pairwise"):
            raise OptionError(
                f"{pairwise_options[0]} belongs to pairwise, and --method is "
                f"{method}; omit one of them."
            )

        settings: dict[str, Any] = {}
        if self.report_share is not None:
            settings["report_share"] = self.report_share
        if self.for_inference:
            settings["moments_share"] = _MOMENTS_SHARE
        if self.analyses is not None:
            from noisegate.app.analyses import settings_for

            settings |= settings_for(self.analyses)
        return settings | parse_settings(pairs, self.public)


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What `fit` and `release` are asked for, as it was typed.

    Attributes:
        request: The options that are declared there, with the settings of all others.
            The schema is the path of a file.
        images: Options that describe images, in place of a schema file.
        setting_options: Options that stand for settings.
    """

    request: Request
    images: ImageOptions
    setting_options: SettingOptions

    doors: ClassVar[Mapping[str, Door]] = DOORS
    """The options of `Request` that the verb takes."""

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """Returns all options as keyword parameters, in the order of help."""
        parameters: list[inspect.Parameter] = []
        for name, door in cls.doors.items():
            if name == "schema":
                parameters += _field_parameters(ImageOptions)
            if name == "settings":
                parameters += _field_parameters(SettingOptions)
            default = Request.__dataclass_fields__[name].default
            parameter = inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_typed_default(default),
                annotation=Annotated[door.type, _declared_option(name)],
            )
            parameters.append(parameter)
        return parameters

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Returns the options of a command line.

        Args:
            values: By the names of `parameters`; what is left out is at its default.

        Raises:
            OptionError: if a setting cannot be read.
        """
        setting_options = _with_fields(SettingOptions, values)
        settings = setting_options.to_settings(
            values.get("method", "auto"), values.get("settings")
        )
        return cls(
            request=_with_fields(Request, {**values, "settings": settings}),
            images=_with_fields(ImageOptions, values),
            setting_options=setting_options,
        )

    @property
    def run_ledger(self) -> Ledger | None:
        """The ledger that records the cost of the run; None without a data set.

        The environment may name a ledger for all runs.
        """
        if self.request.dataset is None:
            return None
        from noisegate.ledger.ledger import Ledger

        return Ledger(cast("str | None", self.request.ledger))

    def read_schema(self) -> Any:
        """Reads the schema file, or builds the schema of images that options describe.

        Returns:
            A `Schema`, or a `LinkedSchema` for linked tables.

        Raises:
            OptionError: if the schema is missing or there twice, or this machine lacks
                the memory for a fit to such images.
            SchemaError: if the schema is unusable.
        """
        from noisegate.schema.pixels import check_machine_memory, estimated_fit_bytes
        from noisegate.schema.schema import is_linked, read_schema

        path = self.request.schema
        describes_images = bool(self.images.specified())
        if describes_images and path is not None:
            raise OptionError(
                f"--schema {path} and {self.images.as_typed()} both describe the "
                "records; leave one of them out. (`noisegate schema init --images` "
                "writes the options into a file.)"
            )
        if describes_images:
            schema = self.images.to_schema()
        else:
            schema = read_schema(require_schema(path))
        if not is_linked(schema) and schema.images is not None:
            shape = schema.images.shape
            check_machine_memory(shape, estimated_fit_bytes(shape), "a fit to them")
        return schema

    def to_run(self) -> Run:
        """Returns the run that the options ask for.

        Raises:
            OptionError: if the schema or ε is missing, or an option is unusable.
        """
        from noisegate.app.runs.folder import Run

        schema = self.read_schema()
        required(self.request.epsilon, "--epsilon")
        request = replace(
            self.request,
            # By its path, since a discovery of the schema lies beside the file.
            schema=self.request.schema or schema,
            ledger=self.run_ledger,
        )
        return Run.of(request)

    def explicit_options(self, context: Context) -> dict[str, Any]:
        """Collects the options that stand on the command line, without any default.

        They are compared with what an interrupted run, a stream or a published plan
        states already.

        Args:
            context: Context of the verb.

        Returns:
            Values by the names of the parameters. Options that belong to the method are
            under ``settings``, by setting; those that describe images are the schema
            ``schema``.
        """
        images = self.images.specified()
        explicit = {
            name: value
            for name, value in context.params.items()
            if name not in images and _is_on_command_line(context, name)
        }
        settings = dict(self.request.settings)
        if "seed" in explicit:
            settings["seed"] = self.request.seed
        for name in ("seed", *SettingOptions.__dataclass_fields__):
            explicit.pop(name, None)
        explicit["settings"] = settings
        if images:
            explicit["schema"] = self.read_schema()
        return explicit

    def stated_by_plan(self, context: Context, own: Collection[str] = ()) -> list[str]:
        """Returns what was typed and is stated by a published plan, as it was typed.

        Args:
            context: Context of the verb.
            own: Options in which a run may differ from the plan, by field.
        """
        explicit = self.explicit_options(context)
        settings = explicit.pop("settings")
        typed_names = {option.name: option.opts[0] for option in context.command.params}
        plan_options = [name for name, door in self.doors.items() if not door.is_local]
        stated = [
            typed_names[name]
            for name in (*plan_options, "tables")
            if name in explicit and name not in own
        ]
        return stated + [typed_setting(*setting) for setting in settings.items()]


class PlanOptions(FitOptions):
    """What `plan` is asked for, as it was typed."""

    doors: ClassVar[Mapping[str, Door]] = {
        name: door for name, door in DOORS.items() if door.in_plan
    }


def _typed_default(default: Any) -> Any:
    """Returns the default of an option as the command line reads it."""
    if default is MISSING:
        return None  # of settings, whose default is made again each time
    return default.value if isinstance(default, Enum) else default


def _with_fields(options_class: type[_T], values: Mapping[str, Any]) -> _T:
    """Returns a dataclass with those of some values that are its fields."""
    names = [option.name for option in fields(cast("Any", options_class))]
    return options_class(**{name: values[name] for name in names if name in values})


def _is_on_command_line(context: Context, name: str) -> bool:
    """Returns whether a value was typed, and is no default or environment variable."""
    # By the name of the source: Typer may bring its own copy of click.
    source = context.get_parameter_source(name)
    return getattr(source, "name", None) == "COMMANDLINE"


def expand_options(verb: _Verb) -> _Verb:
    """Puts the options of a class on the command line of a verb.

    Typer reads the options of a verb off its signature. So the verb is wrapped in a
    function whose signature has, in place of the parameter ``options``, one keyword for
    each field of its dataclass, with the annotation and default of the field; or for
    each of `FitOptions.parameters`. Where the verb has a parameter of the same name, in
    words of its own, both get the value.

    Args:
        verb: A function with a parameter ``options`` that is annotated with such a
            class.

    Returns:
        The verb as Typer takes it: called with the fields by name.

    Examples:
        >>> import inspect
        >>> from dataclasses import dataclass
        >>> from noisegate.app.cli.options import expand_options
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Size:
        ...     height: int
        ...     width: int = 28
        >>> @expand_options
        ... def area(options: Size, *, twice: bool = False) -> int:
        ...     return options.height * options.width
        >>> str(inspect.signature(area))
        '(*, height: int, width: int = 28, twice: bool = False)'
        >>> area(height=2)
        56
    """
    signature = inspect.signature(verb, eval_str=True)
    options_class = signature.parameters["options"].annotation
    if issubclass(options_class, FitOptions):
        option_parameters = options_class.parameters()
        make_options = options_class.of
    else:
        option_parameters = _field_parameters(options_class)
        make_options = options_class
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name == "options":
            parameters.extend(
                option
                for option in option_parameters
                if option.name not in signature.parameters
            )
        else:
            # Fields with and without defaults stand in any order as keywords only.
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    option_names = {parameter.name for parameter in option_parameters}

    @wraps(verb)
    def command(**values: Any) -> Any:
        option_values = {
            name: value for name, value in values.items() if name in option_names
        }
        verb_values = {
            name: value
            for name, value in values.items()
            if name in signature.parameters
        }
        return verb(options=make_options(**option_values), **verb_values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return command  # type: ignore[return-value]


def _field_parameters(options_class: type[Any]) -> list[inspect.Parameter]:
    """Returns a keyword parameter for each field of a dataclass."""
    hints = get_type_hints(options_class, include_extras=True)
    parameters = []
    for field in fields(options_class):
        has_default = field.default is not MISSING
        parameter = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default if has_default else inspect.Parameter.empty,
            annotation=hints[field.name],
        )
        parameters.append(parameter)
    return parameters


def parse_settings(pairs: list[str] | None, public: str | None) -> dict[str, Any]:
    """Reads the settings of a method.

    Args:
        pairs: Values of --set, each NAME=VALUE.
        public: Value of --public, which is a setting too; None if it is left out.

    Returns:
        Values by setting. They are read as JSON, and are text if they are not JSON.

    Raises:
        OptionError: if a pair is no NAME=VALUE.

    Examples:
        >>> from noisegate.app.cli.options import parse_settings
        >>> parse_settings(["cells=32", "kernel=gauss"], public="survey.csv")
        {'public': 'survey.csv', 'cells': 32, 'kernel': 'gauss'}
    """
    settings: dict[str, Any] = {} if public is None else {"public": public}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise OptionError(
                f"--set {pair!r} must look like NAME=VALUE, for instance --set "
                "cells=32."
            )
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def typed_setting(name: str, value: Any) -> str:
    """Returns a setting of the method as it is typed: ``--set cells=32``."""
    has_own_option = name in ("seed", "public")
    return f"--{name} {value}" if has_own_option else f"--set {name}={value}"


def select_engine(engine: str, address: str | None) -> Engine | None:
    """Returns the engine that takes the sums over all records.

    Args:
        engine: "local", "ray", or the name of an engine of an installed package.
        address: Where the cluster is; None for this machine.

    Returns:
        The engine, not opened yet; None for this machine.

    Raises:
        OptionError: if there is no such engine, or "local" is given an address.
        MissingExtraError: if Ray is not installed.
    """
    installed_engines = extensions("noisegate.engines")
    names = ("local", "ray", *installed_engines)
    if engine not in names:
        raise OptionError(f"--engine {engine!r} must be {' or '.join(names)}.")
    if engine == "local":
        if address is not None:
            raise OptionError(f"--address {address} needs --engine ray as well.")
        return None
    if engine == "ray":
        from noisegate.gate.engines.ray import RayEngine

        return RayEngine(address=address)
    engine_class: Callable[..., Engine] = installed_engines[engine].load()
    return engine_class(address=address)


def parse_table_paths(tables: Sequence[str]) -> dict[str, str]:
    """Reads the paths of linked tables.

    Args:
        tables: Values of --table, each NAME=PATH; blanks around both are left out.

    Returns:
        Paths by table, in their order.

    Raises:
        OptionError: if one is no NAME=PATH, or a table is named twice.
    """
    paths: dict[str, str] = {}
    for text in tables:
        name, equals, path = (part.strip() for part in text.partition("="))
        # As in postgresql://host/db?table=visits, of which no table is called so.
        is_address = "://" in name
        if not equals or not name or not path or is_address:
            raise OptionError(
                f"--table {without_password(text)!r} must look like NAME=PATH, for instance --table "
                "visits=2024/visits.csv."
            )
        if name in paths:
            raise OptionError(f"--table names {name!r} twice; give one path for it.")
        paths[name] = path
    return paths


def required(value: _T | None, what: str) -> _T:
    """Returns a value without which there is no fit.

    Args:
        value: The value; None if it was left out.
        what: What the message calls it, as in "--epsilon".

    Raises:
        OptionError: if it was left out.
    """
    if value is None:
        raise OptionError(
            f"{what} is missing; for instance: noisegate fit data.csv --schema "
            "schema.toml --epsilon 1 --out model"
        )
    return value


def require_schema(path: Path | None) -> Path:
    """Returns the path of a schema file, or explains why a schema is needed.

    Args:
        path: Value of --schema; None if it was left out.

    Raises:
        OptionError: if it was left out.
    """
    if path is None:
        raise OptionError(
            "--schema is required. Bounds, levels and missing-ness read off private "
            "data would leak it: an outlier's value, a rare diagnosis, that somebody "
            "answered at all. Write down what is publicly known; `noisegate schema "
            "init PUBLIC.csv -o schema.toml` drafts it from a file that is public. "
            f"Images are described by options instead, {_IMAGES_EXAMPLE}."
        )
    return path


def _parse_labels(text: str) -> list[str] | list[int]:
    """Reads the value of --classes.

    Args:
        text: The number of labels, or all labels, separated by commas.

    Returns:
        All labels: of "3" 0, 1 and 2; of "3,7" these two numbers; of "cat,7" the texts.

    Raises:
        OptionError: if it is neither.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise OptionError(
            f"--classes {text!r}: a name is empty; give a number, or names as in "
            "cat,dog."
        )
    are_numbers = all(name.isascii() and name.isdecimal() for name in names)
    if len(names) > 1:
        return [int(name) for name in names] if are_numbers else names
    if not are_numbers or int(text) < 1:
        raise OptionError(
            f"--classes {text!r} must be the number of labels, 1 or more, or all their "
            "names: cat,dog."
        )
    return list(range(int(text)))
