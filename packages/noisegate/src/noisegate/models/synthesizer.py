"""What a fit gives: synthetic tables or images, and the certificate that goes with them. Public side."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.answers.verdict import Verdict
from noisegate.atomic import check_on_disk
from noisegate.cards import ResultCard, Shown
from noisegate.errors import ModelError, OptionError, SchemaError
from noisegate.models.checkpoint import FitSummary
from noisegate.models.folder import (
    CLASSIFIER,
    LINKED,
    NETWORK_CLASSIFIER,
    kind_in,
    read_model,
    write_model,
)
from noisegate.models.output.sample_file import ImageBatch, image_batch
from noisegate.models.record_model import (
    ConditionalModel,
    FittedModel,
    RecordModel,
    model_class,
)
from noisegate.models.rejection import (
    BATCH_ROWS,
    USUALLY_KEPT,
    Tally,
    accepted_batches,
    accepted_within,
    describe_rules,
    explain_rejection,
    mixed,
    rejecting_rules,
    verdict_of_rules,
)
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.registry import extension
from noisegate.schema import EncodedTable, Region, Schema, decode
from noisegate.seeds import check_seed, public_random

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

_TRIED = 4096
_FORMS = "what gives back tables of their kind"
_BATCH_NUMBERS = 2**23  # of the numbers of a batch of images: 64 MB as float64
MOST_ROWS = (
    2**53
)  # more records than this are counted no more exactly, and no disk holds them

_UNFIT = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
)  # what parts of a model that do not fit together end in


@dataclass(frozen=True, kw_only=True, repr=False)
class Synthesizer(Shown):
    """A fitted model of records with its release. It holds no record; sampling costs no privacy.

    Attributes:
        release: What left the gate, with its certificate.
        model: What records are drawn from.
        summary: How the fit ended.
        convert: Applied to the Arrow tables that `sample` returns; `noisegate.synthesize` gives back the caller's kind.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, Synthesizer, synthesize
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False] * 100})
        >>> made = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> model = Synthesizer.load(made.save("model"))
        >>> model.sample(3, where={"ill": True})["ill"].to_pylist()
        [True, True, True]
        >>> model.certificate.check() <= 1.0
        True
    """

    release: Release
    model: RecordModel
    summary: FitSummary
    convert: Callable[[pa.Table], Any] | None = field(default=None, repr=False)

    @property
    def certificate(self) -> Certificate:
        """The statement to hand out with the synthetic table."""
        return self.release.certificate

    def card(self) -> ResultCard:
        """Returns what the model is, promises and is worth, as a card for a terminal or a notebook."""
        certificate, schema = self.certificate.card(), self.schema.card()
        facts = {"guarantee": self.certificate.guarantee, **certificate.facts}
        if self.verdict is not None:
            facts = {"verdict": self.verdict.headline, **facts}
        of = "Synthesizer of" if self.schema.images else "Synthesizer of a table:"
        title = schema.title.replace("Schema:", of, 1)
        return ResultCard(
            title=title, facts=facts, sheets=[*schema.sheets, *certificate.sheets]
        )

    @property
    def verdict(self) -> Verdict | None:
        """What the fit came to, in words: a good, usable or rough copy, or noise; why, and what would help."""
        return self.summary.verdict

    @cached_property
    def schema(self) -> Schema:
        """The public schema."""
        return self.release.schema

    @cached_property
    def kept_share(self) -> float:
        """About which share of the records that the model draws keeps to the constraints; others are drawn again."""
        if not self.schema.constraints:
            return 1.0
        return float(1 - self.schema.broken(self._candidates).mean())

    @cached_property
    def rejecting_rules(self) -> list[tuple[str, float]]:
        """The constraints that records of the model break, and about which share breaks each, most first."""
        return (
            rejecting_rules(self.schema, self._candidates)
            if self.schema.constraints
            else []
        )

    @cached_property
    def _candidates(self) -> EncodedTable:
        (records,) = _drawn(
            self.model.draw(rows, public_random(0)) for rows in (_TRIED,)
        )
        return records

    @property
    def often_broken(self) -> str | None:
        """Why constraints shift what is sampled, or None: many of the records that the model draws break one."""
        if self.kept_share >= USUALLY_KEPT:
            return None
        return (
            f"of the records that the model draws, about {self.kept_share:.1%} keep to the constraints of the schema. "
            "The others are drawn again, which shifts the columns that constraints name: compare these with what was "
            f"released, or drop a constraint that many records break ({describe_rules(self.rejecting_rules)})."
        )

    def judged_by_rules(self) -> Synthesizer:
        """Returns the synthesizer with a verdict that says so where few records of its model keep to the constraints.

        Drawing them again shifts columns, so it is no good copy, however near the model is to the release.
        """
        found = verdict_of_rules(self.kept_share, self.rejecting_rules)
        return (
            self
            if found is None
            else replace(self, summary=self.summary.with_verdict(found))
        )

    def sample(
        self,
        n: int,
        *,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
        even: str | None = None,
        like: Any = None,
        independent: bool = False,
    ) -> Any:
        """Returns `n` synthetic records, with the columns and types of the schema, that keep to its constraints.

        Args:
            n: Number of records, at least 0.
            seed: Seed for non-private randomness; None for other records at every call.
            where: Values that every record shall have, by column: ``{"sex": "Female", "age": (18, 30)}``. A level, a
                truth value, or None for missing; of a number or date one value or a closed interval, with None for
                an open end. Every other column then follows the model, given these values.
            even: A column of levels or truth values, each of which as many records shall have (to within one), whatever
                the model's shares: a small class is then as large as the others. None is missing there.
            like: A table whose kind, order of columns and dtypes the sample shall have. Of its records nothing is used;
                but dtypes may tell of values that they were chosen by, as those of ``pandas.read_csv`` do.
            independent: Whether rows of a mixture are drawn each alone; by default they are spread out over it, as in a
                stratified survey, so that a sample is nearer to the model.

        Returns:
            A PyArrow table; where the model was fitted to another kind of table in memory, one of that kind.

        Raises:
            OptionError: if `n` is negative or no whole number, `where` names an unknown column or a value that it
                cannot have, `even` a column without levels or one that `where` names, `like` lacks a column or has a
                type that cannot hold it.
            RejectionError: if at most 1,048,576 + 100 n candidates of the model do not give as many records that keep
                to the constraints and to `where`: see `noisegate.models.rejection`.
        """
        import pyarrow as pa

        batches = self.batches(
            n, seed=seed, where=where, even=even, independent=independent
        )
        if self.often_broken is not None:
            warnings.warn(self.often_broken, UserWarning, stacklevel=2)
        columns, layout = len(self.schema.columns), self.schema.layout
        memory = (
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            if hasattr(os, "sysconf")
            else math.inf
        )
        if n * columns > memory:
            raise OptionError(
                f"n={n:,}: that many records of {columns:,} columns need more than {n * columns / 1e9:,.0f} GB, and "
                f"this machine has {memory / 1e9:,.0f} GB of memory. Ask for fewer, or iterate over batches(n)."
            )
        none = EncodedTable(
            np.zeros((0, len(layout.numeric))),
            np.zeros((0, len(layout.coded)), dtype=np.int32),
        )
        table = pa.concat_tables(
            list(batches) or [decode(none, self.schema, stored=True)]
        )
        if like is not None:
            from noisegate.models.output.native_table import native_form

            return native_form(like, self.schema, exact=True)(table)
        return self.convert(table) if self.convert else table

    def infer(self, *questions: str, level: float = 0.95, finite: bool = False) -> Any:
        """Returns answers with intervals, which rows of a sample do not give; see `noisegate.answers.infer.infer`."""
        from noisegate.answers.infer import infer

        return infer(self, *questions, level=level, finite=finite)

    def effective_n(self) -> Any:
        """Returns how many records rows of this model are worth; see `noisegate.answers.worth.effective_n`."""
        from noisegate.answers.worth import effective_n

        return effective_n(self)

    def batches(self, n: int, **asked: Any) -> Iterator[pa.Table]:
        """Returns `n` synthetic records in Arrow tables of at most 16,384, in constant memory; see `sample`."""
        return (
            decode(records, self.schema, stored=True)
            for records in self.records(n, **asked)
        )

    def images(self, n: int, **asked: Any) -> Iterator[ImageBatch]:
        """Returns `n` synthetic images with their labels, in batches, in constant memory.

        They are those that `sample` gives as rows of pixels, for the same arguments, as ``where={"label": 3}``.

        Raises:
            OptionError: if the model was fitted to a table and makes no images, or as `sample` does.
        """
        if self.schema.images is None:
            raise OptionError(
                "this model was fitted to a table and makes no images: take sample(n). A model of images is fitted "
                "with a schema of images, as noisegate.schema.pixel_schema(28, 28, labels=range(10)) makes it."
            )
        return (
            image_batch(records, self.schema) for records in self.records(n, **asked)
        )

    def to_datasets(self, n: int, **asked: Any) -> Any:
        """Returns `n` synthetic records as a Hugging Face data set, described by the certificate; see `sample`.

        Images become an image column, and their labels names of classes. Push it with its own ``push_to_hub``.

        Raises:
            MissingExtraError: if `datasets` is not installed.
            OptionError: as `sample` does.
        """
        from noisegate.models.output.sample_file import data_set

        if self.schema.images is None:
            table = replace(self, convert=None).sample(n, **asked)
        else:
            as_table = extension("noisegate.pictures", "table", "what writes images")
            table = as_table(self.images(n, **asked), self.schema.images)
        return data_set(table, str(self.certificate))

    def package(
        self,
        folder: str | Path,
        n: int,
        *,
        name: str | None = None,
        licence: str | None = None,
        **asked: Any,
    ) -> Path:
        """Writes a new folder to hand out: `n` synthetic records, descriptions of them, and the certificate.

        Args:
            folder: New.
            n: Number of records.
            name: Of the file of records; None for synthetic.csv, or synthetic.parquet of images.
            licence: Under which they are handed out: an SPDX name such as CC-BY-4.0, or an address.
            asked: `seed`, `where` and `even`, as `sample` takes them.

        Returns:
            The folder, with a Frictionless `datapackage.json` and an MLCommons `croissant.json`.

        Raises:
            OptionError: if the folder exists or cannot be written, `name` ends in neither .csv nor .parquet, or as
                `sample` does.
        """
        from noisegate.models.output.sample_file import sample_writer
        from noisegate.models.package import new_package

        batches = (self.batches if self.schema.images is None else self.images)(
            n, **asked
        )
        package = new_package(
            Path(folder),
            None if name is None else Path(name),
            self.release,
            licence=licence,
        )
        with package as path, sample_writer(path, self.schema, n) as write:
            for batch in batches:
                write(batch)
        return Path(folder)

    def records(
        self,
        n: int,
        *,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
        even: str | None = None,
        independent: bool = False,
    ) -> Iterator[EncodedTable]:
        """Returns `n` synthetic records as the schema encodes them, in batches; what is wrong is found at once."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise OptionError(
                f"n={n!r}: the number of records to sample must be a whole number, 0 or more."
            )
        if n >= MOST_ROWS:
            raise OptionError(
                f"n={n:,}: at most {MOST_ROWS - 1:,} records are sampled at once; ask for fewer."
            )
        if seed is not None:
            check_seed(seed)
        conditions = [where] if even is None else self._for_each(even, where)
        random = public_random(seed, independent=independent)
        form = self.schema.images
        most = (
            BATCH_ROWS
            if form is None
            else min(max(_BATCH_NUMBERS // form.shape.size, 1), BATCH_ROWS)
        )
        rows = max(most // len(conditions), 1)
        parts = [
            self._accepted(
                n // len(conditions) + (place < n % len(conditions)),
                random,
                condition,
                rows,
            )
            for place, condition in enumerate(conditions)
        ]
        return _drawn(mixed(parts, random))

    def _accepted(
        self,
        n: int,
        random: torch.Generator,
        where: Mapping[str, Any] | None,
        batch_rows: int,
    ) -> Iterator[EncodedTable]:
        region = region_of(self.schema, where) if where else None
        model, asked = self.model, "the constraints of the schema"
        if region is not None:
            asked = f"where={dict(where or {})!r}" + (
                f" and {asked}" if self.schema.constraints else ""
            )
            if isinstance(model, ConditionalModel):
                if not model.probability(region) > 0:
                    raise OptionError(
                        f"{asked}: the model gives no such record; ask for less at once."
                    )
                model = model.given(region)

        def accept(records: EncodedTable) -> npt.NDArray[np.bool_]:
            kept = ~self.schema.broken(records)
            return kept if region is None else kept & region.contains(records)

        def explain(candidates: EncodedTable) -> str:
            return explain_rejection(rejecting_rules(self.schema, candidates))

        is_conditioned = region is not None or bool(self.schema.constraints)
        return accepted_batches(
            model,
            n,
            random,
            accept=accept if is_conditioned else None,
            requested=asked,
            explain=explain,
            batch_rows=batch_rows,
        )

    def records_within(
        self, n: int, *, seed: int, limit: int
    ) -> tuple[EncodedTable, Tally]:
        """Returns the first of `n` synthetic records that so many candidates of the model give, to look at the model.

        Args:
            n: Number of records, at most.
            seed: Seed for non-private randomness. The records are the first ones that `records` gives for it.
            limit: Number of candidates, at most.

        Returns:
            Records that keep to the constraints, and how many candidates were drawn and accepted.
        """
        random = public_random(seed)
        if not self.schema.constraints:
            records = EncodedTable.concatenate(list(self.records(n, seed=seed)))
            return records, Tally(drawn=n, accepted=n, yielded=n)
        model = self.model
        return accepted_within(
            model,
            n,
            random,
            accept=lambda found: ~self.schema.broken(found),
            limit=limit,
        )

    def _for_each(
        self, even: str, where: Mapping[str, Any] | None
    ) -> list[Mapping[str, Any]]:
        try:
            column = self.schema.column(even)
        except SchemaError as error:
            raise OptionError(f"even: {error}") from None
        if column.numeric:
            raise OptionError(
                f"even={even!r}: the column holds numbers; name one of levels or of truth values."
            )
        if where and even in where:
            raise OptionError(
                f"even={even!r}: where={dict(where)!r} says the value of that column; leave one out."
            )
        return [{**(where or {}), even: value} for value in column.levels]

    def save(self, folder: str | Path) -> Path:
        """Writes the model into the new folder `folder`: safetensors and JSON, no pickle. See `model_folder`.

        Raises:
            ModelError: if the folder exists or cannot be written.
        """
        model = {
            "kind": self.model.kind,
            **self.model.to_json(),
            "fit": self.summary.to_json(),
        }
        if (form := getattr(self.convert, "to_json", None)) is not None:
            model["form"] = form()
        return write_model(
            model_path(folder),
            release=self.release,
            tensors=self.model.tensors(),
            model=model,
        )

    @staticmethod
    def load(folder: str | Path) -> Synthesizer:
        """Returns the synthesizer that `save` wrote, after checking every hash.

        Raises:
            ModelError: if the folder is missing, broken or was changed, or holds a classifier.
        """
        from noisegate.models.output.native_table import saved_form

        release, tensors, description = read_model(model_path(folder))
        if description.get("kind") in (CLASSIFIER, NETWORK_CLASSIFIER):
            raise ModelError(
                f"{folder} holds a classifier, which draws no records: ask it with `noisegate predict`, or with "
                "noisegate.load; `noisegate explain` shows what one of dp-llm answers to."
            )
        try:
            model = model_class(description["kind"]).from_saved(
                release.schema, tensors, description
            )
            summary = FitSummary.from_json(description["fit"])
            # Older models have no form.
            convert = saved_form(description.get("form"), release.schema)
        except (*_UNFIT, AttributeError, RuntimeError, MemoryError) as error:
            raise ModelError(
                f"{folder}: the model cannot be rebuilt: {error}"
            ) from None
        return Synthesizer(
            release=release, model=model, summary=summary, convert=convert
        )


def load(folder: str | Path) -> FittedModel:
    """Returns the model in a folder, after checking every hash: of a table, of linked tables, or a classifier.

    Raises:
        ModelError: if the folder is missing, broken or was changed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, load, synthesize
        >>> from noisegate.schema import Boolean
        >>> made = synthesize(pa.table({"ill": [True, False] * 100}), schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> load(made.save("loaded")).sample(2).column_names
        ['ill']
    """
    found = model_path(folder)
    kind = kind_in(found)
    if kind in (LINKED, CLASSIFIER, NETWORK_CLASSIFIER):
        loaded: FittedModel = model_class(kind).load(found)
        return loaded
    return Synthesizer.load(found)


def region_of(schema: Schema, where: Mapping[str, Any]) -> Region:
    """Returns the records that are asked for, by values of columns; an `OptionError` where there can be none."""
    if not isinstance(where, Mapping):
        raise OptionError(
            f"where={where!r} must map names of columns to values, as in {{'sex': 'Female'}}."
        )
    try:
        return schema.region(where)
    except SchemaError as error:
        raise OptionError(f"where: {error}") from None


def model_path(given: Any) -> Path:
    """Returns the path of a model folder; a `ModelError` where none is given."""
    if (
        not isinstance(given, str | Path)
        or not str(given).strip()
        or "\0" in str(given)
    ):
        raise ModelError(f"folder={given!r} must be the path of a model folder.")
    check_on_disk(Path(given), "folder")
    return Path(given)


def _drawn(batches: Iterator[EncodedTable]) -> Iterator[EncodedTable]:
    """Yields batches of a model, whose tensors need not fit its description once somebody edited the folder."""
    try:
        yield from batches
    except _UNFIT as error:
        raise ModelError(
            f"the model draws no records, its parts do not fit together: {error}."
        ) from error
