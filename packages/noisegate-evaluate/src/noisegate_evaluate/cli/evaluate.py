"""`noisegate evaluate`: how useful are the synthetic records?"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from noisegate.app.cli.console import (
    ERR,
    OUT,
    announce_files,
    print_json,
    show_progress,
)
from noisegate.app.cli.options import Json, SchemaOption, expand_options, require_schema
from noisegate.app.heading import HEADING_NAMES, check_heading
from noisegate.atomic import new_file
from noisegate.errors import OptionError, SchemaError
from noisegate.progress import spinner
from noisegate.seeds import MOST_EVALUATION_SEED

if TYPE_CHECKING:
    from noisegate.schema import Schema
    from noisegate.schema.linked.schema import LinkedSchema
    from noisegate_evaluate import ImageReport, NetworkOptions, Report, Suite
    from noisegate_evaluate.evaluation import Evaluation
    from noisegate_evaluate.reporting.private import Sides

Title = Annotated[
    str | None, Option(help="Heading of the pages, in place of the model's own.")
]
Owner = Annotated[
    str | None,
    Option(help="Who is responsible for them, such as an office and an address."),
]
Purpose = Annotated[
    str | None, Option(help="What the synthetic records are for, in one line.")
]
_OF_NETWORKS = "image", "repeats", "epochs", "augment", "device"
_NOT_FOR_IMAGES = "jobs", "by", "image", "augment", "page", *HEADING_NAMES
_FOR_IMAGES = "features", "weights", "most", "nearest", "on_error"


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

    def sides(self, evaluation: Evaluation) -> Sides[Any]:
        """Reads the synthetic, the test and the training records."""
        from noisegate_evaluate.reporting.private import Sides

        with ERR.status("Reading", spinner=spinner(ERR)):
            synthetic = evaluation.read(self.synthetic, "")
            test = evaluation.read(self.test, "test")
            train = None
            if self.train is not None:
                train = evaluation.read(self.train, "training")
        return Sides(synthetic=synthetic, test=test, train=train)

    def measure(
        self,
        title: str,
        evaluation: Evaluation,
        sides: Sides[Any],
        classifiers: Suite,
        **options: Any,
    ) -> Report | ImageReport:
        """Measures the records under a line of progress.

        Args:
            title: What the line says.
            evaluation: The evaluation.
            sides: The records.
            classifiers: What is trained.
            options: Further options of the evaluation, by name.
        """
        total = classifiers.count * (1 if self.train is None else 2)
        with show_progress(title, total) as update:
            return evaluation.measure(
                sides,
                classifiers=classifiers,
                seed=self.seed,
                progress=lambda name, done, _: update(done, name),
                **options,
            )


@expand_options
def evaluate_command(options: EvaluateOptions, as_json: Json = False) -> None:
    """Compare synthetic with real records: distributions, analyses, models.

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
) -> Report | ImageReport:
    """Evaluates a table or linked tables, and writes the page if one is asked for."""
    from noisegate.schema.linked.schema import LinkedSchema
    from noisegate_evaluate.evaluation import linked_evaluation, table_evaluation
    from noisegate_evaluate.images import find_pixels
    from noisegate_evaluate.reporting.private import private_page

    heading = check_heading(vars(options))
    more_options = options.given("jobs")
    if isinstance(schema, LinkedSchema):
        if options.by is not None:
            raise OptionError(f"--by {options.by}: groups are those of a single table")
        if suite.name == "networks":
            raise OptionError(
                "--classifiers networks is for images; choose three or twelve for "
                "linked tables"
            )
        evaluation = linked_evaluation(schema)
        title = "Training classifiers and measuring links"
    else:
        if suite.name == "networks":
            find_pixels(schema, networks.image)
        if schema.images is None:
            for path in (options.synthetic, options.test, options.train):
                if path is not None:
                    announce_files(path)
        evaluation = table_evaluation(schema, show_values=options.show_values)
        title = "Training classifiers and counting marginals"
        more_options |= options.given("by")
        more_options["networks"] = networks
    file = new_file(options.page, "page") if options.page else nullcontext()
    with file as page:
        sides = options.sides(evaluation)
        report = options.measure(title, evaluation, sides, suite, **more_options)
        if page:
            shown = evaluation.page(report, sides, seed=options.seed)
            page.chmod(0o600)
            page.write_text(private_page(shown, **heading), encoding="utf-8")
    return report


def _suite(options: EvaluateOptions) -> tuple[Suite, NetworkOptions]:
    """Returns what is trained, and what was said about networks; an error where no network is trained."""
    from noisegate_evaluate.images import read_image
    from noisegate_evaluate.utility.networks import NetworkOptions, Training
    from noisegate_evaluate.utility.suites import read_suite

    suite = read_suite(options.classifiers or "three")
    if suite.name != "networks":
        for name in options.given(*_OF_NETWORKS):
            raise OptionError(
                f"--{name} is for networks; add --classifiers networks, or leave it out"
            )
        return suite, NetworkOptions()
    networks = NetworkOptions(
        **options.given("repeats"),
        image=None if options.image is None else read_image(options.image),
        training=Training(**options.given("epochs", "augment", "device")),
    )
    suite = read_suite(str(options.classifiers), networks)
    _ = suite.recipes[
        0
    ].device  # an error where it is not there, before anything is read
    return suite, networks


def _images(options: EvaluateOptions, schema: Schema) -> Report | ImageReport:
    """Evaluates images, and draws the nearest ones if they are asked for."""
    from noisegate_evaluate import SelectionRecipe, named_features, read_classifiers
    from noisegate_evaluate.evaluation import image_evaluation
    from noisegate_evaluate.images import IMAGES
    from noisegate_evaluate.reporting.pictures import PREFIX, nearest_picture

    if schema.images is None:
        raise SchemaError(
            "--images: the schema describes a table; describe images under [images]"
        )
    suite = read_classifiers(
        options.classifiers or "cnn",
        selection=SelectionRecipe(**options.given("epochs", "device")),
        **options.given("repeats"),
    )
    features = named_features(options.features or "encoder", options.weights)
    picture = options.nearest
    if picture and (options.train is None or not picture.name.startswith(PREFIX)):
        raise OptionError(
            "--nearest shows private records: give --train, and a file whose name "
            f"starts with {PREFIX}"
        )
    evaluation = image_evaluation(
        schema,
        show_values=options.show_values,
        on_error=options.on_error or "refuse",
    )
    sides = options.sides(evaluation)
    if picture and sides.train is not None:
        nearest_picture(sides.synthetic, sides.train, picture, seed=options.seed)
    return options.measure(
        "Training classifiers and measuring distances",
        evaluation,
        sides,
        suite,
        features=features,
        images=options.most or IMAGES,
    )
