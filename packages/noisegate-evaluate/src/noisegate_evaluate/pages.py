"""The verb `report`: the pages of a model.

`public.html` follows from the model alone and may be published; `private.html` compares
it with real records and may not::

    model ──► PublicPage ──► public.html
    model, real records ──► Sides ──► Report, PrivatePage ──► private.html

The figures of either page are files in `reporting/public_figures` and
`reporting/private_figures`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.answers.domain import domain_of
from noisegate.answers.measurements import Measurements
from noisegate.answers.reading import (
    ReleaseReader,
    public_total,
    stated_measurements,
)
from noisegate.app.heading import HEADING_NAMES, check_heading, heading_of
from noisegate.atomic import check_named, new_file, unwritable
from noisegate.errors import OptionError, UserError
from noisegate.methods.abilities import BoundsErrors
from noisegate.methods.registry import method_of
from noisegate.models.folder import MODEL_FILE, PUBLIC_PAGE
from noisegate.models.linked.model import LinkedModel
from noisegate.models.output.sample_file import image_batch
from noisegate.models.rejection import USUALLY_KEPT, RejectionError
from noisegate.models.synthesizer import Synthesizer, load
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable
from noisegate.schema.linked.links import qualified
from noisegate_evaluate.reporting.figure import render_with_figures
from noisegate_evaluate.reporting.promise import column_words, promised, total_words
from noisegate_evaluate.reporting.public import ModelRules, PublicPage, ReleasedLink
from noisegate_evaluate.reporting.released import (
    divisor,
    measured_columns,
    measured_tables,
    pair_errors,
    released_total,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.methods.method import Method
    from noisegate.models.record_model import FittedModel as Model
    from noisegate.schema.linked.links import Link
    from noisegate_evaluate.comparison import ImageReport, Report
    from noisegate_evaluate.reporting.private import PrivatePage
    from noisegate_evaluate.utility.runner import Progress

PRIVATE = "private.html"

# Of what is drawn and trained for a page, so that it is the same whenever it is made.
_SEED = 0
_DRAWN_FAMILIES = 5_000
_DRAWN_ROWS = 10_000
_MIN_IMAGES = 100
_MAX_IMAGES = 500
_IMAGES_PER_CLASS = 25
# A page comes after every fit: its records take seconds, however few of the model's
# keep to the rules.
_MAX_CANDIDATES = 2**18
# Of thousands of columns fewer records are drawn: so many numbers have 256 MB.
_MAX_NUMBERS = 2**25
# Fewer records than this say nothing of a column.
_MIN_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class Pages:
    """The pages that were written.

    Attributes:
        public: The public page.
        private: The private page; None where no real records were given.
        evaluation: The figures of the private page; None without it.
    """

    public: Path
    private: Path | None = None
    evaluation: Report | ImageReport | None = None

    def to_frames(self) -> dict[str, Any]:
        """Returns the figures of the private page as data frames by name, see `Report.to_frames`; none without it."""
        return {} if self.evaluation is None else self.evaluation.to_frames()


def report(
    model: Model | str | Path,
    *,
    out: str | Path,
    test: Any = None,
    train: Any = None,
    classifiers: str | None = None,
    title: str | None = None,
    owner: str | None = None,
    purpose: str | None = None,
    show_values: bool = False,
    progress: Progress | None = None,
) -> Pages:
    """Writes the pages of a model as HTML files that need no other file.

    - `public.html` is computed from the model alone. It may be shared with the model.
    - `private.html` is written if real records are given. It compares them with synthetic records. It is not covered
      by the guarantee, and states this. Show it only to people who may see the records.

    Args:
        model: A model, or its folder.
        out: Folder of the pages. Pages in it are replaced.
        test: Held-out real records, of any kind that `Gate` accepts; for linked tables also their folder. None writes
            the public page only.
        train: Real records that the fit used. Copies of them among the synthetic records are counted.
        classifiers: Which classifiers are trained, as for `noisegate_evaluate.evaluate_tables`.
        title: Title at the head of the pages; None for that of the model.
        owner: Who is responsible for the model; None for the owner that the model states.
        purpose: What the model is for; None for the purpose that the model states.
        show_values: Whether errors may quote private values.
        progress: Called with the name of the training, the number of trainings done, and the total number.

    Returns:
        The paths of the pages.

        `public.html` has a date if a title, an owner or a purpose is given here. Otherwise it is the same file at each
        call.

    Raises:
        ModelError: if the folder is not a complete model, or its certificate does not hold.
        OptionError: if `train` is given without `test`, a private page would lie in a model folder, a heading is not
            one line of text, or a file cannot be written.
        DataError: if the records do not fit the schema.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, report, synthesize
        >>> from noisegate.schema import Boolean
        >>> table, schema = pa.table({"ill": [True, False] * 100}), Schema([Boolean(name="ill")])
        >>> model = synthesize(table, schema=schema, epsilon=1.0)
        >>> report(model, out="pages").public.name
        'public.html'
    """
    folder = Path(out)
    check_named(folder)
    if train is not None and test is None:
        raise OptionError(
            "train without test: a private page scores on real records that the fit "
            "did not use; give test."
        )
    if test is not None and (folder / MODEL_FILE).exists():
        raise OptionError(
            f"out={str(out)!r} is a model folder, which is made to be shared, and "
            "the page with test is private; choose another folder."
        )
    is_path = isinstance(model, str | Path)
    if not is_path and not isinstance(getattr(model, "release", None), Release):
        raise OptionError(
            f"model={type(model).__name__}: expected the path of a model folder, or a "
            "fitted model."
        )
    own_heading = check_heading({"title": title, "owner": owner, "purpose": purpose})
    fitted_model: Any = load(model) if isinstance(model, str | Path) else model
    heading = heading_of(fitted_model.release.certificate) | own_heading
    public = _public_page(fitted_model, heading, is_dated=bool(own_heading))
    texts = {PUBLIC_PAGE: _render_public(public)}
    private: PrivatePage | None = None
    if test is not None:
        from noisegate_evaluate.reporting.private import private_page

        private = _private_page(
            fitted_model,
            test,
            train,
            classifiers=classifiers,
            show_values=show_values,
            progress=progress,
        )
        texts[PRIVATE] = private_page(private, **heading)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(folder, "out", error) from None
    for name, text in texts.items():
        _write(folder / name, text)
    return Pages(
        public=folder / PUBLIC_PAGE,
        private=None if private is None else folder / PRIVATE,
        evaluation=None if private is None else private.report,
    )


def add_public_page(model: Model, folder: Path) -> None:
    """Writes the public page of a model into its folder."""
    heading = heading_of(model.release.certificate)
    page = _public_page(model, heading, is_dated=False)
    _write(folder / PUBLIC_PAGE, _render_public(page))


def _write(path: Path, page: str) -> None:
    """Writes a page; the private one is for its owner alone."""
    with new_file(path, force=True) as beside:
        beside.chmod(0o600 if path.name == PRIVATE else beside.stat().st_mode)
        beside.write_text(page, encoding="utf-8")


def _private_page(
    model: Any,
    test: Any,
    train: Any,
    *,
    classifiers: str | None,
    show_values: bool,
    progress: Progress | None,
) -> PrivatePage:
    """Compares as many synthetic records as there are real ones with these.

    Args:
        model: The model.
        test: Real records that the fit did not use.
        train: Real records that it used; None where they are not at hand.
        classifiers: What is trained; None for the usual ones.
        show_values: Whether messages may quote values.
        progress: Called after each training.

    Raises:
        OptionError: if the model draws no records.
        DataError: if records do not fit the schema.
    """
    from noisegate_evaluate.evaluation import IMAGES_OF_PAGE, evaluation_of
    from noisegate_evaluate.reporting.private import Sides
    from noisegate_evaluate.utility.suites import read_classifiers

    if not isinstance(model, Synthesizer | LinkedModel):
        raise OptionError(
            "test: a classifier draws no records to compare; leave test out, or score "
            "its predictions."
        )
    evaluation = evaluation_of(model.schema, show_values=show_values)
    # Unknown levels are refused here.
    sides: Sides[Any] = Sides(
        synthetic=None,
        test=evaluation.read(test, ""),
        train=None if train is None else evaluation.read(train, ""),
    )
    if isinstance(model, LinkedModel):
        count = evaluation.count(sides.real)
    else:
        count = round(divisor(_stated(model)[1]))
    synthetic = evaluation.draw(model, min(count, evaluation.max_drawn), _SEED)
    sides = replace(sides, synthetic=synthetic)
    options: dict[str, Any] = {"classifiers": classifiers or "three"}
    if getattr(model.schema, "images", None) is not None:
        options["classifiers"] = read_classifiers(classifiers or "cnn")
        options["images"] = IMAGES_OF_PAGE
    report = evaluation.measure(sides, seed=_SEED, progress=progress, **options)
    report = replace(report, fitted=model.summary.verdict)
    return evaluation.page(report, sides, seed=_SEED)


def _render_public(page: PublicPage) -> str:
    """Returns the public page, HTML."""
    pairs = "pair of columns was"
    if page.unmeasured_pairs > 1:
        pairs = "pairs of columns were"
    return render_with_figures(
        "public",
        page,
        **promised(page.release),
        unmeasured=f"{page.unmeasured_pairs:,} {pairs}",
    )


def _public_page(
    model: Any, heading: Mapping[str, str], *, is_dated: bool
) -> PublicPage:
    """Returns the contents of the public page of a model.

    Args:
        model: The model, which may be a classifier.
        heading: The public texts of the owner, by name.
        is_dated: Whether the page states the date.
    """
    summary = getattr(model, "summary", None)
    verdict = getattr(summary, "verdict", None)
    figures = {} if verdict is None else verdict.figures
    page = PublicPage(
        model=model,
        release=model.release,
        verdict=verdict,
        discrepancy=getattr(summary, "discrepancy", None),
        heading={**dict.fromkeys(HEADING_NAMES, ""), **heading},
        is_dated=is_dated,
        unmeasured_pairs=figures.get("pairs_not_measured", 0),
    )
    if isinstance(model, LinkedModel):
        return _with_links(page, model)
    return _with_records(page)


def _with_records(page: PublicPage) -> PublicPage:
    """Adds what the page of a model of one table or of images shows."""
    model = page.model
    schema = page.release.schema
    method, measurements, held_out = _stated(model)
    drawn: EncodedTable | None = None
    picture = b""
    rules: ModelRules | None = None
    tables = []
    held_out_tables = []
    if isinstance(model, Synthesizer):
        drawn, picture, rules = _drawn(model)
        if len(drawn):
            tables = measured_columns(measurements, schema.layout, drawn)
            records = divisor(measurements)
            held_out_tables = measured_tables(
                held_out, schema.layout, drawn, records=records
            )
    columns = None
    if schema.images is None:
        names = schema.coordinates.names
        tables.sort(key=lambda table: names.index(table.name))
        columns = [column_words(column) for column in schema.columns]
    return replace(
        page,
        read_release=None if method is None else partial(stated_measurements, method),
        subject=_subject(model),
        total=total_words(measurements),
        columns=columns,
        relations=[str(relation) for relation in schema.relations],
        constraints=[str(rule) for rule in schema.constraints],
        weights=schema.weights,
        images=schema.images,
        has_moments=measurements.moments is not None,
        is_of_stream=page.release.certificate.stream is not None,
        drawn=None if drawn is None else len(drawn),
        picture=picture,
        tables=tables,
        pair_errors=pair_errors(measurements),
        held_out=held_out_tables,
        bounds=_bounds(page.release, method, measurements),
        rules=rules,
    )


def _subject(model: Any) -> str:
    """Returns what was made, as text."""
    schema = model.release.schema
    if not isinstance(model, Synthesizer):
        return "A classifier that was trained under differential privacy"
    if schema.images is not None:
        shape = schema.images.shape
        return f"Synthetic images of {shape.height} × {shape.width} pixels"
    plural = "s" if len(schema.columns) != 1 else ""
    return f"A synthetic copy of a table of {len(schema.columns)} column{plural}"


def _stated(model: Any) -> tuple[Method | None, Measurements, Measurements]:
    """Returns what the release of a model states, by the method that made it.

    Returns:
        The method; None of a package that is not installed, or with settings of an
        earlier version. All that the release states; and what the fit did not see.
    """
    release = model.release
    nothing = Measurements(
        domain_of(release.schema.layout, ()),
        (),
        known_total=public_total(release.certificate),
    )
    try:
        method = method_of(release.certificate)
    except UserError:
        return None, nothing, nothing
    held_out = nothing
    if isinstance(method, ReleaseReader):
        held_out = method.held_out_measurements(release)
    return method, stated_measurements(method, release), held_out


def _bounds(release: Release, method: object, measurements: Measurements) -> list[str]:
    """Returns the method's bounds on the error of its queries, as text."""
    if not isinstance(method, BoundsErrors) or released_total(measurements) is None:
        return []
    certificate = release.certificate
    budget = Budget(
        epsilon=certificate.epsilon,
        delta=certificate.delta,
        adjacency=certificate.adjacency,
        unit=certificate.unit,
        contributions=certificate.contributions,
    )
    records = round(divisor(measurements))
    bounds = method.error_bounds(release.schema, budget, records)
    return [bound.text() for bound in bounds]


def _drawn(model: Synthesizer) -> tuple[EncodedTable, bytes, ModelRules | None]:
    """Draws what a page shows of a model.

    Returns:
        Synthetic records, of images some of each class; a picture of these, PNG; and
        how many records keep to the rules, None where most do.
    """
    images = model.schema.images
    if images is None:
        records, rules = _drawn_rows(model)
        return records, b"", rules
    wanted = _IMAGES_PER_CLASS * max(len(images.labels), 1)
    count = min(max(wanted, _MIN_IMAGES), _MAX_IMAGES)
    batches = list(model.records(count, seed=_SEED))
    return EncodedTable.concatenate(batches), _picture(model, batches), None


def _drawn_rows(model: Synthesizer) -> tuple[EncodedTable, ModelRules | None]:
    """Draws records of a table, and counts how many keep to the rules.

    Returns:
        The records; none where too few keep to the rules. How many do; None where most
        do.
    """
    room = max(_MAX_NUMBERS // len(model.schema.columns), _MIN_SHOWN)
    rows = min(_DRAWN_ROWS, room)
    records, tally = model.records_within(
        rows, seed=_SEED, limit=_MAX_CANDIDATES * rows // _DRAWN_ROWS
    )
    if tally.share >= USUALLY_KEPT:
        return records, None
    rules = ModelRules(
        drawn=tally.drawn, accepted=tally.accepted, rejecting=model.rejecting_rules
    )
    if len(records) < _MIN_SHOWN:
        records = records.rows(slice(0, 0))
    return records, rules


def _picture(model: Synthesizer, batches: list[EncodedTable]) -> bytes:
    """Returns a picture of images, PNG; empty of those neither grey nor in colour."""
    from noisegate_images.output.formats import SampleGrid

    assert model.schema.images is not None
    try:
        grid = SampleGrid(form=model.schema.images, out=Path("grid.png"))
    except OptionError:
        return b""
    for batch in batches:
        grid.add(image_batch(batch, model.schema))
    file = io.BytesIO()
    grid.draw().save(file, format="png")
    return file.getvalue()


def _with_links(page: PublicPage, model: LinkedModel) -> PublicPage:
    """Adds what the page of a model of linked tables shows."""
    schema = model.schema
    method: Any = method_of(model.certificate)
    links: list[ReleasedLink] = []
    refusal = ""
    total = "–"
    total_text = "records: no table could be drawn"
    try:
        tables = replace(model, convert=None).sample(_DRAWN_FAMILIES, seed=_SEED)
    except RejectionError as error:
        refusal = str(error)
    else:
        links = [
            ReleasedLink(
                link=link,
                released=method.measurements_of_link(page.release, link),
                drawn=_transitions(model, tables, link),
            )
            for link in schema.links
        ]
        total, total_text = total_words(links[0].released)
    relations: list[str] = []
    constraints: list[str] = []
    for table in schema.tables:
        relations += [f"{table.name}: {one}" for one in table.schema.relations]
        constraints += [f"{table.name}: {one}" for one in table.schema.constraints]
    names = ", ".join(schema.names)
    return replace(
        page,
        subject=f"A synthetic copy of {len(schema.tables)} linked tables: {names}",
        total=(total, total_text.replace("records", f"records of {schema.root.name}")),
        columns=[
            column_words(column)
            for table in schema.tables
            for column in qualified(table)
        ],
        relations=[*relations, *map(str, schema.relations)],
        constraints=[*constraints, *map(str, schema.constraints)],
        refusal=refusal,
        links=links,
    )


def _transitions(
    model: LinkedModel, tables: Mapping[str, pa.Table], link: Link
) -> EncodedTable:
    """Draws one transition of each synthetic family that has any, by its weight: all families count alike.

    Args:
        model: The model.
        tables: Synthetic tables, by name.
        link: The link.
    """
    from noisegate.sources.linked import LinkedSource

    with LinkedSource(tables, model.schema, key=bytes(16)) as source:
        parts = list(source.read_transitions(link))
    rows = EncodedTable.concatenate(
        [EncodedTable(part.numeric, part.codes) for part in parts]
    )
    weights = np.concatenate([part.weights for part in parts]).astype(np.float64)
    random = np.random.default_rng(_SEED)
    probabilities = weights / weights.sum()
    return rows.rows(random.choice(len(rows), size=_DRAWN_FAMILIES, p=probabilities))
