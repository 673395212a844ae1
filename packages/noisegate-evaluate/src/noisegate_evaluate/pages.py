"""The pages of a model: one that may be published, of the model alone; and one of real records, which may not."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from noisegate.answers.domain import domain_of
from noisegate.answers.measurements import Measurements
from noisegate.answers.reading import (
    ReleaseReader,
    public_total,
    stated_measurements,
)
from noisegate.app.heading import check_heading, heading_of
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

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.methods.method import Method
    from noisegate.models.record_model import FittedModel as Model
    from noisegate.schema.linked.links import Link
    from noisegate_evaluate.comparison import ImageReport, Report
    from noisegate_evaluate.reporting.private import Measured
    from noisegate_evaluate.reporting.public import ModelRules
    from noisegate_evaluate.reporting.released import MeasuredTable
    from noisegate_evaluate.utility.runner import Progress

_FAMILIES, _MOST_FAMILIES = 5_000, 20_000
_SEED = 0  # of what is drawn for a page, so that it is the same whenever it is made


@dataclass(frozen=True, kw_only=True)
class LinkedFound:
    """A model of linked tables, and what its release says of each link."""

    model: LinkedModel

    def page(self, heading: Mapping[str, str], *, is_dated: bool = False) -> str:
        """Returns the public page, HTML, with the texts of its owner by name."""
        from noisegate_evaluate.reporting.public import ReleasedLink, linked_page

        model, fitted = self.model, self.model.summary
        read: Any = method_of(model.certificate)
        links = []
        try:
            drawn = self._tables(_FAMILIES)
        except RejectionError as error:
            return linked_page(
                model.release,
                fitted.verdict,
                fitted.discrepancy,
                schema=model.schema,
                links=[],
                refusal=str(error),
                is_dated=is_dated,
                heading=heading,
            )
        for link in model.schema.links:
            released = read.measurements_of_link(model.release, link)
            links.append(
                ReleasedLink(
                    link=link, released=released, drawn=self._transitions(drawn, link)
                )
            )
        told: Any = {"schema": model.schema, "links": links}
        told |= {"heading": heading, "is_dated": is_dated}
        return linked_page(model.release, fitted.verdict, fitted.discrepancy, **told)

    def measured(
        self,
        test: Any,
        train: Any,
        *,
        classifiers: str | None,
        progress: Progress | None,
        show_values: bool,
    ) -> Measured:
        """Reads real tables, and returns what compares them with as many synthetic families, or 20,000."""
        from noisegate.sources.frames import read_linked
        from noisegate_evaluate import evaluate_linked
        from noisegate_evaluate.reporting.private import compared_linked

        schema = self.model.schema
        held_out, used = (
            read_linked(test, schema),
            None if train is None else read_linked(train, schema),
        )
        made = self._tables(
            min(len((used or held_out)[schema.root.name]), _MOST_FAMILIES)
        )
        how: Any = {
            "classifiers": classifiers or "three",
            "progress": progress,
            "seed": _SEED,
        }
        report = evaluate_linked(made, held_out, schema, used, **how)
        return compared_linked(
            replace(report, fitted=self.model.summary.verdict),
            made,
            held_out,
            used,
            schema,
        )

    def _tables(self, families: int) -> dict[str, pa.Table]:
        return replace(self.model, convert=None).sample(families, seed=_SEED)

    def _transitions(self, drawn: dict[str, pa.Table], link: Link) -> Any:
        """Returns one transition of each synthetic family that has any, at random by its weight: as all count alike."""
        from noisegate.sources.linked import LinkedSource

        with LinkedSource(drawn, self.model.schema, key=bytes(16)) as source:
            parts = list(source.read_transitions(link))
        rows = EncodedTable.concatenate(
            [EncodedTable(part.numeric, part.codes) for part in parts]
        )
        weights = np.concatenate([part.weights for part in parts]).astype(np.float64)
        random = np.random.default_rng(_SEED)
        return rows.rows(
            random.choice(len(rows), size=_FAMILIES, p=weights / weights.sum())
        )


PUBLIC, PRIVATE = PUBLIC_PAGE, "private.html"
_ROWS, _IMAGES, _IMAGES_A_CLASS = 10_000, 500, 25
# A page comes after every fit: its records take seconds, however few of the model's keep to the rules.
_PAGE_CANDIDATES = 2**18
# Of thousands of columns fewer records are drawn: so many numbers have 256 MB.
_PAGE_NUMBERS = 2**25
# Fewer records than this say nothing of a column.
_MIN_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class Pages:
    """The pages that were written; the private one and its figures, None where no real records were given."""

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
    """Writes the pages of a model as HTML files that hold all they show.

    `public.html` follows from the model alone and may be handed on with it. With real records, `private.html` compares
    them with synthetic ones: it is outside the guarantee, says so, and stays with whoever may see the records.

    The model may be a folder; pages in ``out`` are replaced. The model was not made from the records ``test``, which
    are as `Gate` takes them, of linked tables also their folder, and None for the public page alone. It was made from
    those of ``train``: copies of them are looked for. For the others see `noisegate.evaluate`.

    A ``title``, an ``owner`` who answers for the model, and its ``purpose`` stand at the head of the pages, in place of
    those that the model was fitted with. `public.html` is dated if one is given here; else it comes out the same
    whenever it is made.

    Raises:
        ModelError: if the folder is no whole model, or its certificate does not hold.
        OptionError: if `train` comes without `test`, a private page would lie in a model folder, a heading is no line
            of text, or nothing can be written.
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
        cure = (
            "a private page scores on real records that the fit did not use; give test."
        )
        raise OptionError(f"train without test: {cure}")
    if test is not None and (folder / MODEL_FILE).exists():
        says = f"out={str(out)!r} is a model folder, which is made to be handed on, and the page with test is private"
        raise OptionError(f"{says}; choose another folder.")
    if not isinstance(model, str | Path) and not isinstance(
        getattr(model, "release", None), Release
    ):
        raise OptionError(
            f"model={type(model).__name__}: expected the path of a model folder, or a fitted model."
        )
    given = check_heading({"title": title, "owner": owner, "purpose": purpose})
    found = _found(load(model) if isinstance(model, str | Path) else model)
    heading = heading_of(found.model.release.certificate) | given
    texts, measured = {PUBLIC: found.page(heading, is_dated=bool(given))}, None
    if test is not None:
        from noisegate_evaluate.reporting.private import private_page

        measured = found.measured(
            test,
            train,
            classifiers=classifiers,
            progress=progress,
            show_values=show_values,
        )
        texts[PRIVATE] = private_page(measured, **heading)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(folder, "out", error) from None
    for name, text in texts.items():
        _write(folder / name, text)
    private, figures = (
        (None, None) if measured is None else (folder / PRIVATE, measured.report)
    )
    return Pages(public=folder / PUBLIC, private=private, evaluation=figures)


def add_public_page(model: Model, folder: Path) -> None:
    """Writes the public page of a model into its folder."""
    heading = heading_of(model.release.certificate)
    _write(folder / PUBLIC, _found(model).page(heading))


def _found(model: Any) -> _Found | LinkedFound:
    return (
        LinkedFound(model=model) if isinstance(model, LinkedModel) else _Found.of(model)
    )


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A model, and what its release says of columns, by the method that made it."""

    model: Model
    method: Method | None
    released: Measurements
    held_out: Measurements

    @classmethod
    def of(cls, model: Model) -> Self:
        """Returns them for a model; no method if its package is not installed."""
        release = model.release
        nothing = Measurements(
            domain_of(release.schema.layout, ()),
            (),
            known_total=public_total(release.certificate),
        )
        try:
            method = method_of(release.certificate)
        except UserError:
            # Of a package that is not installed, or with settings of an earlier version.
            return cls(model=model, method=None, released=nothing, held_out=nothing)
        held_out = nothing
        if isinstance(method, ReleaseReader):
            held_out = method.held_out_measurements(release)
        return cls(
            model=model,
            method=method,
            released=stated_measurements(method, release),
            held_out=held_out,
        )

    def page(self, heading: Mapping[str, str], *, is_dated: bool = False) -> str:
        """Returns the public page, HTML, with the texts of its owner by name."""
        from noisegate_evaluate.reporting.change import changes
        from noisegate_evaluate.reporting.public import public_page

        model, summary = self.model, getattr(self.model, "summary", None)
        fitted = (
            getattr(summary, "verdict", None),
            getattr(summary, "discrepancy", None),
        )
        drawn, png, rules = (
            _drawn(model) if isinstance(model, Synthesizer) else (None, None, None)
        )
        told: Any = {
            "heading": heading,
            "released": self.released,
            "held_out": self._held_out_tables(drawn),
            "bounds": self._bounds(),
        }
        told["rules"] = rules
        if isinstance(model, Synthesizer) and model.schema.weights is not None:
            from noisegate_evaluate.reporting.population import population_rows

            told["population"] = population_rows(model)
        told["is_dated"] = is_dated
        told["changed"] = []
        if self.method is not None:
            read_measurements = partial(stated_measurements, self.method)
            told["changed"] = changes(model.release, read_measurements)
        return public_page(model.release, *fitted, **told, drawn=drawn, png=png)

    def _held_out_tables(self, drawn: EncodedTable | None) -> list[MeasuredTable]:
        """Returns the tables that the fit never saw, beside the records drawn."""
        from noisegate_evaluate.reporting.released import divisor, measured_tables

        if drawn is None or len(drawn) == 0:
            return []
        layout = self.model.release.schema.layout
        records = divisor(self.released)
        return measured_tables(self.held_out, layout, drawn, records=records)

    def _bounds(self) -> list[str]:
        from noisegate_evaluate.reporting.released import divisor, released_total

        certificate = self.model.release.certificate
        method = self.method
        if method is None or not isinstance(method, BoundsErrors):
            return []
        if released_total(self.released) is None:
            return []
        of_budget = "epsilon", "delta", "adjacency", "unit", "contributions"
        budget = Budget(**{name: getattr(certificate, name) for name in of_budget})
        records = round(divisor(self.released))
        return [
            bound.text()
            for bound in method.error_bounds(self.model.release.schema, budget, records)
        ]

    def measured(
        self,
        test: Any,
        train: Any,
        *,
        classifiers: str | None,
        progress: Progress | None,
        show_values: bool,
    ) -> Measured:
        """Reads real records, and returns what compares them with synthetic ones."""
        from noisegate.sources.sources import open_source
        from noisegate_evaluate.reporting.private import measure
        from noisegate_evaluate.reporting.released import divisor

        model = self.model
        if not isinstance(model, Synthesizer):
            cure = "leave test out, or score its predictions."
            raise OptionError(f"test: a classifier draws no records to compare; {cure}")
        held_out = list(
            open_source(test, model.schema, show_values=show_values).batches()
        )
        used = (
            None
            if train is None
            else list(
                open_source(train, model.schema, show_values=show_values).batches()
            )
        )
        records = round(divisor(self.released))
        return measure(
            model,
            held_out,
            used,
            records=records,
            classifiers=classifiers,
            progress=progress,
        )


def _drawn(model: Synthesizer) -> tuple[EncodedTable, bytes | None, ModelRules | None]:
    """Returns what a page shows of a model, by a seed of its own.

    Returns:
        Synthetic records, of images some of each class; a picture of these; and how many records keep to the rules,
        None where most do.
    """
    from noisegate_evaluate.reporting.public import ModelRules

    form = model.schema.images
    if form is None:
        rows = min(_ROWS, max(_PAGE_NUMBERS // len(model.schema.columns), _MIN_SHOWN))
        records, tally = model.records_within(
            rows, seed=_SEED, limit=_PAGE_CANDIDATES * rows // _ROWS
        )
        if tally.share >= USUALLY_KEPT:
            return records, None, None
        rules = ModelRules(
            drawn=tally.drawn, accepted=tally.accepted, rejecting=model.rejecting_rules
        )
        if len(records) < _MIN_SHOWN:
            records = records.rows(slice(0, 0))
        return records, None, rules
    number = min(max(_IMAGES_A_CLASS * max(len(form.labels), 1), 100), _IMAGES)
    batches = list(model.records(number, seed=_SEED))
    return EncodedTable.concatenate(batches), _grid(model, batches), None


def _grid(model: Synthesizer, batches: list[EncodedTable]) -> bytes | None:
    """Returns a picture of images, PNG; None of images that are neither grey nor in colour."""
    from noisegate_images.output.formats import SampleGrid

    assert model.schema.images is not None
    try:
        shown = SampleGrid(form=model.schema.images, out=Path("grid.png"))
    except OptionError:
        return None
    for batch in batches:
        shown.add(image_batch(batch, model.schema))
    target = io.BytesIO()
    shown.draw().save(target, format="png")
    return target.getvalue()


def _write(path: Path, page: str) -> None:
    with new_file(path, force=True) as beside:
        beside.chmod(
            0o600 if path.name == PRIVATE else beside.stat().st_mode
        )  # for its owner alone
        beside.write_text(page, encoding="utf-8")
