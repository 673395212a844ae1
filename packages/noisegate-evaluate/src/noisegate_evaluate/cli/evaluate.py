"""`noisegate evaluate`: how useful are the synthetic records? And `noisegate report`: pages of a model to look at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from typer import Argument, Option

from noisegate.app.cli.console import (
    ERR,
    OUT,
    announce_files,
    print_json,
    show_progress,
    show_verdict,
)
from noisegate.app.cli.options import Json, SchemaOption, expand_options, require_schema
from noisegate.app.heading import HEADING_NAMES, check_heading
from noisegate.atomic import new_file
from noisegate.errors import DataError, OptionError, SchemaError
from noisegate.progress import spinner
from noisegate.seeds import MOST_EVALUATION_SEED

if TYPE_CHECKING:
    from noisegate.schema import Schema
    from noisegate.schema.linked.schema import LinkedSchema
    from noisegate_evaluate import NetworkOptions, Suite

Title = Annotated[
    str | None, Option(help="Heading of the pages, in place of the model's own.")
]
Owner = Annotated[
    str | None,
    Option(help="Who answers for them, such as an office and an address."),
]
Purpose = Annotated[
    str | None, Option(help="What the synthetic records are for, in one line.")
]
_OF_NETWORKS = "image", "repeats", "epochs", "augment", "device"
_NOT_FOR_IMAGES = "jobs", "by", "image", "augment", "page", *HEADING_NAMES
_FOR_IMAGES = "features", "weights", "most", "nearest", "on_error"
_Records = TypeVar("_Records")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What was said on the command line; None is what was not."""

    synthetic: Annotated[
        Path,
        Option(
            help="Synthetic records: CSV, Parquet or another table; images; or a folder "
            "of linked tables."
        ),
    ]
    test: Annotated[Path, Option(help="Real records that the fit did not use.")]
    schema: SchemaOption = None
    train: Annotated[
        Path | None,
        Option(
            help="Real records that the fit used: gives the ceiling to compare with."
        ),
    ] = None
    seed: Annotated[
        int,
        Option(
            min=0,
            max=MOST_EVALUATION_SEED,
            help="Of the classifiers and of the choice of triples.",
        ),
    ] = 0
    images: Annotated[
        bool,
        Option(
            "--images",
            help="Measure images: classifiers chosen by synthetic images alone, Fréchet and kernel distance, precision "
            "and recall, different bins. The schema is one of images.",
        ),
    ] = False
    classifiers: Annotated[
        str | None,
        Option(
            help="three (default); twelve: those of the papers, slower; for pixel columns networks, or some of them: "
            "convnet, lenet, alexnet, vgg11, resnet18, mlp. With --images: some of cnn (default), resnet, "
            "resnet9, wrn, logistic, mlp, twelve."
        ),
    ] = None
    by: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Column of levels, such as sex: figures in each of its groups too, and the worst group of each.",
        ),
    ] = None
    jobs: Annotated[
        int | None,
        Option(
            min=1,
            help="Of twelve or networks: how many run side by side. Default: every core.",
        ),
    ] = None
    image: Annotated[
        str | None,
        Option(
            metavar="H,W,C",
            help="With networks: shape of the images, where column names do not tell it.",
        ),
    ] = None
    repeats: Annotated[
        int | None,
        Option(
            help="With networks: fresh starts of each. Default: 3; with --images 1."
        ),
    ] = None
    epochs: Annotated[
        int | None,
        Option(
            help="With networks. Default: 300, or 1000 with --augment; with --images 6."
        ),
    ] = None
    augment: Annotated[
        bool | None,
        Option(
            "--augment",
            help="With networks: train on shifted, scaled and turned images.",
        ),
    ] = None
    device: Annotated[
        str | None, Option(help="With networks: auto (default), cpu, cuda or mps.")
    ] = None
    features: Annotated[
        str | None,
        Option(
            help="With --images, what distances are measured in: encoder (default), inception-v3 or pixels."
        ),
    ] = None
    weights: Annotated[
        Path | None,
        Option(help="With inception-v3: the file. Default: the cache of torch."),
    ] = None
    most: Annotated[
        int | None,
        Option(
            min=2,
            help="With --images: images of each set for distances. Default: 10,000.",
        ),
    ] = None
    nearest: Annotated[
        Path | None,
        Option(
            help="With --images and --train: draw synthetic images beside the nearest PRIVATE ones into this PNG, "
            "whose name starts with private-."
        ),
    ] = None
    on_error: Annotated[
        str | None,
        Option(help="With --images, for pictures that cannot be used: refuse or skip."),
    ] = None
    page: Annotated[
        Path | None,
        Option(
            help="Write the figures and charts of every column to this HTML file. PRIVATE."
        ),
    ] = None
    title: Title = None
    owner: Owner = None
    purpose: Purpose = None
    show_values: Annotated[
        bool, Option("--show-values", help="Let errors quote private values.")
    ] = False

    def given(self, *names: str) -> dict[str, Any]:
        """Returns those of the options that were given, by name."""
        return {
            name: value for name in names if (value := getattr(self, name)) is not None
        }

    def check(self) -> None:
        """Refuses options of the other kind of evaluation."""
        for name in self.given(*(_NOT_FOR_IMAGES if self.images else _FOR_IMAGES)):
            cure = "leave it out" if self.images else "add --images, or leave it out"
            option = f"--{name.replace('_', '-')}"
            raise OptionError(
                f"{option} is {'not ' if self.images else ''}for --images; {cure}"
            )
        for name in self.given(*HEADING_NAMES):
            if self.page is None:
                raise OptionError(
                    f"--{name} stands on a page; add --page FILE.html, or leave it out"
                )

    def read(
        self,
        read: Callable[[Path], _Records],
        read_real: Callable[[Path], _Records] | None = None,
    ) -> tuple[_Records, _Records, _Records | None]:
        """Reads the synthetic, the test and the training records, the last two by `read_real` if it is given."""
        read_real = read_real or read
        with ERR.status("Reading", spinner=spinner(ERR)):
            return (
                read(self.synthetic),
                read_real(self.test),
                None if self.train is None else read_real(self.train),
            )

    def measure(
        self,
        doing: str,
        suite: Suite,
        evaluate: Callable[..., Any],
        *records: Any,
        **more: Any,
    ) -> Any:
        """Returns the report, made under a line of progress."""
        with show_progress(
            doing, suite.count * (1 if self.train is None else 2)
        ) as update:
            progress: Any = lambda name, done, _: update(done, name)  # noqa: E731
            return evaluate(
                *records, classifiers=suite, seed=self.seed, progress=progress, **more
            )


@expand_options
def evaluate_command(options: EvaluateOptions, as_json: Json = False) -> None:
    """Train on synthetic, test on real, and compare marginals.

    The figures are computed on real data and are not covered by the guarantee: keep them private.

    Example: `noisegate evaluate --synthetic synthetic.csv --test real_test.csv --schema schema.toml`

    Images: `noisegate evaluate --images --synthetic out.parquet --test TEST_FOLDER --schema images.toml`

    Linked tables: `noisegate evaluate --synthetic FOLDER --test TEST_FOLDER --schema clinic.toml`
    """
    from noisegate.schema import Schema
    from noisegate.schema.schema import read_schema

    if options.images:
        images = Schema.from_toml(require_schema(options.schema))
        options.check()
        report = _images(options, images)
    else:
        options.check()
        suite, networks = _suite(options)
        schema = read_schema(require_schema(options.schema))
        report = _tables(options, schema, suite, networks)
    if as_json:
        print_json(report.to_json())
    else:
        OUT.print(report.render())


def _tables(
    options: EvaluateOptions,
    schema: Schema | LinkedSchema,
    suite: Suite,
    networks: NetworkOptions,
) -> Any:
    from noisegate.schema.linked.schema import LinkedSchema
    from noisegate.sources.frames import read_known_records, read_linked, read_table
    from noisegate_evaluate import evaluate_linked, evaluate_tables
    from noisegate_evaluate.evaluate import notes_of_unknown
    from noisegate_evaluate.images import find_pixels
    from noisegate_evaluate.reporting.private import (
        compared,
        compared_linked,
        private_page,
    )

    heading = check_heading(vars(options))
    read: Any
    read_real: Any = None
    unknown: dict[str, int] = {}
    measure, look = cast(Any, evaluate_linked), cast(Any, compared_linked)
    more = options.given("jobs")
    if isinstance(schema, LinkedSchema):
        for column in options.given("by").values():
            raise OptionError(f"--by {column}: groups are those of a single table")
        if suite.name == "networks":
            raise OptionError(
                "--classifiers networks is for images; choose three or twelve for linked tables"
            )
        read = partial(read_linked, schema=schema)
        doing = "Training classifiers and measuring links"
    else:
        if suite.name == "networks":
            find_pixels(schema, networks.image)
        for path in filter(
            None,
            (options.synthetic, options.test, options.train)
            if schema.images is None
            else (),
        ):
            announce_files(path)
        read = partial(read_table, schema=schema, show_values=options.show_values)
        if schema.images is None:

            def read_real(path: Path) -> Any:
                table, count = read_known_records(
                    path, schema, show_values=options.show_values
                )
                unknown["test" if path == options.test else "training"] = count
                return table

        measure, look = evaluate_tables, compared
        doing, more = (
            "Training classifiers and counting marginals",
            more | options.given("by") | {"networks": networks},
        )
    with new_file(options.page, "page") if options.page else nullcontext() as page:
        made, test, used = options.read(read, read_real)
        report = options.measure(
            doing, suite, measure, made, test, schema, used, **more
        )
        report = replace(report, notes=(*report.notes, *notes_of_unknown(unknown)))
        if page:
            page.chmod(0o600)
            page.write_text(
                private_page(
                    look(report, made, test, used, schema, seed=options.seed), **heading
                ),
                encoding="utf-8",
            )
    return report


def _suite(options: EvaluateOptions) -> tuple[Suite, NetworkOptions]:
    """Returns what is trained, and what was said about networks; an error where no network is trained."""
    from noisegate_evaluate.images import read_image
    from noisegate_evaluate.utility.networks import REPEATS, NetworkOptions, Training
    from noisegate_evaluate.utility.suites import read_suite

    suite = read_suite(options.classifiers or "three")
    if suite.name != "networks":
        for name in options.given(*_OF_NETWORKS):
            raise OptionError(
                f"--{name} is for networks; add --classifiers networks, or leave it out"
            )
        return suite, NetworkOptions()
    networks = NetworkOptions(
        image=None if options.image is None else read_image(options.image),
        repeats=REPEATS if options.repeats is None else options.repeats,
        training=Training(**options.given("epochs", "augment", "device")),
    )
    suite = read_suite(str(options.classifiers), networks)
    _ = suite.recipes[
        0
    ].device  # an error where it is not there, before anything is read
    return suite, networks


def _images(options: EvaluateOptions, schema: Schema) -> Any:
    from noisegate.sources.sources import open_source
    from noisegate_evaluate import (
        SelectionRecipe,
        images_of,
        named_features,
        read_classifiers,
    )
    from noisegate_evaluate import evaluate_images as evaluate
    from noisegate_evaluate.images import IMAGES
    from noisegate_evaluate.reporting.pictures import PREFIX, nearest_picture

    if schema.images is None:
        raise SchemaError(
            "--images: the schema describes a table; describe images under [images]"
        )
    recipe = SelectionRecipe(**options.given("epochs", "device"))
    suite = read_classifiers(
        options.classifiers or "cnn", selection=recipe, **options.given("repeats")
    )
    features = named_features(options.features or "encoder", options.weights)
    picture = options.nearest
    if picture and (options.train is None or not picture.name.startswith(PREFIX)):
        raise OptionError(
            f"--nearest shows private records: give --train, and a file whose name starts with {PREFIX}"
        )
    how: Any = {
        "show_values": options.show_values,
        "on_error": options.on_error or "refuse",
    }
    made, held_out, used = options.read(
        lambda path: images_of(open_source(path, schema, **how).batches(), schema)
    )
    if picture and used is not None:
        nearest_picture(made, used, picture, seed=options.seed)
    doing, most = "Training classifiers and measuring distances", options.most or IMAGES
    return options.measure(
        doing,
        suite,
        evaluate,
        made,
        held_out,
        schema,
        used,
        features=features,
        images=most,
    )


def report_command(
    model: Annotated[Path, Argument(help="Folder that `noisegate fit --out` wrote.")],
    out: Annotated[
        Path,
        Option("--out", "-o", help="Folder of the pages; pages in it are replaced."),
    ],
    test: Annotated[
        Path | None,
        Option(
            help="Real records that the fit did not use: also makes the private page."
        ),
    ] = None,
    train: Annotated[
        Path | None,
        Option(
            help="Real records that the fit used: adds what they reach themselves, and looks for copies."
        ),
    ] = None,
    classifiers: Annotated[
        str | None,
        Option(
            help="For the private page, as in `noisegate evaluate`. Default: three; of images cnn."
        ),
    ] = None,
    title: Title = None,
    owner: Owner = None,
    purpose: Purpose = None,
    show_values: Annotated[
        bool, Option("--show-values", help="Let errors quote private values.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the pages of a model: self-contained HTML files, without scripts, that load nothing.

    public.html follows from the model alone: the guarantee, the queries run, how far the copy can be relied on. With
    --test, private.html compares it with real records, outside the guarantee; keep that one.

    Example: `noisegate report model -o pages`, or `noisegate report model -o pages --test real_test.csv`
    """
    from noisegate_evaluate.pages import report

    for path in (test, train):
        if path is not None and path.is_dir():
            with suppress(DataError):  # a folder of images stands for itself
                announce_files(path)
    asked: dict[str, Any] = {
        "test": test,
        "train": train,
        "classifiers": classifiers,
        "show_values": show_values,
    }
    asked |= {"title": title, "owner": owner, "purpose": purpose}
    with show_progress(
        "Drawing the page" if test is None else "Training classifiers and comparing",
        None,
    ) as update:
        progress: Any = lambda name, done, of: update(done, f"{done} of {of}, {name}")  # noqa: E731
        made = report(model, out=out, progress=progress, **asked)
    if as_json:
        told = {
            "public": str(made.public),
            "private": None if made.private is None else str(made.private),
        }
        print_json(
            told
            | {
                "evaluation": None
                if made.evaluation is None
                else made.evaluation.to_json()
            }
        )
        return
    if made.evaluation is not None:
        show_verdict(made.evaluation.verdict)
    OUT.print(f"May be published: {made.public}", soft_wrap=True, markup=False)
    if made.private is not None:
        OUT.print(f"PRIVATE, keep it: {made.private}", soft_wrap=True, markup=False)
