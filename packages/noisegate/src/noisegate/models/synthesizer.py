"""The synthesizer: what a fit returns, and what synthetic records come from.

A `Synthesizer` holds a fitted model together with the release that it was fitted to.
Every way of sampling goes through `records`, so that all give the same records for the
same seed::

    model.draw ──► accepted by constraints and where ──► EncodedTable batches: records
                                                            │ decode
                       ┌──────────────┬─────────────────────┼─────────────┐
                       ▼              ▼                     ▼             ▼
                   images         batches              to_datasets     package
                  (arrays)     (Arrow tables)        (Hugging Face)   (a folder)
                                     │ join, convert
                                     ▼
                                  sample

- `Synthesizer.save` writes a model folder, and `load` opens one of any kind.
- Conditions are column values (``where``), or one column of equal shares (``even``).
- Nothing here reads a private record; so no sample costs privacy.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

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
    mix_batches,
    rejecting_rules,
    verdict_of_rules,
)
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.release import Release
from noisegate.registry import extension
from noisegate.schema import EncodedTable, Region, Schema, decode
from noisegate.schema.file_form import PLAIN_CSV
from noisegate.seeds import check_seed, public_random

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

    from noisegate.answers.estimates import Estimate
    from noisegate.answers.evidence import Evidence
    from noisegate.answers.measurements import Measurements
    from noisegate.answers.worth import Worth

_PROBE_ROWS = 4096
"""Candidates by which the share that keeps to the constraints is estimated."""

_BATCH_NUMBERS = 2**23
"""The most numbers in a batch of images: 64 MB as float64."""

SAMPLE_LIMIT = 2**53
"""A sample has fewer records than this: more are not counted exactly in float64, and no
disk holds them."""

# What computing with tensors raises if they do not fit together.
_DAMAGED_MODEL_ERRORS = (LookupError, TypeError, ValueError, ArithmeticError)


class SampleOptions(TypedDict, total=False):
    """How records are drawn; see `Synthesizer.sample` for the meaning of each."""

    seed: int | None
    where: Mapping[str, Any] | None
    even: str | None
    independent: bool
    calibrated: bool | Sequence[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class Synthesizer(Shown):
    """A fitted model of records, with its release. Sampling from it costs no privacy.

    It contains no private record.

    Attributes:
        release: The release, with its certificate.
        model: The model that records are sampled from.
        summary: How the fit ended.
        convert: Function that converts the Arrow tables of `sample` to the caller's
            kind of table; None leaves them unchanged. `noisegate.synthesize` sets it.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, Synthesizer, synthesize
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False] * 100})
        >>> schema = Schema([Boolean(name="ill")])
        >>> fitted = synthesize(table, schema=schema, epsilon=1.0)
        >>> model = Synthesizer.load(fitted.save("model"))
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
        """The privacy statement to hand out with synthetic records."""
        return self.release.certificate

    def card(self) -> ResultCard:
        """Returns a summary of the model for a terminal or a notebook.

        It shows the columns, the guarantee, and the verdict if there is one.
        """
        certificate_card = self.certificate.card()
        schema_card = self.schema.card()
        if self.schema.images:
            kind = "Synthesizer of"
        else:
            kind = "Synthesizer of a table:"

        facts: dict[str, Any] = {}
        if self.verdict is not None:
            facts["verdict"] = self.verdict.headline
        facts["guarantee"] = self.certificate.guarantee
        facts.update(certificate_card.facts)
        return ResultCard(
            title=schema_card.title.replace("Schema:", kind, 1),
            facts=facts,
            sheets=[*schema_card.sheets, *certificate_card.sheets],
        )

    @property
    def verdict(self) -> Verdict | None:
        """How far the records can be relied on: "good", "usable", "rough" or "noise".

        The verdict has reasons and possible improvements. None if nothing is known.
        """
        return self.summary.verdict

    @cached_property
    def schema(self) -> Schema:
        """The public schema."""
        return self.release.schema

    @cached_property
    def kept_share(self) -> float:
        """Estimated share of the model's records that satisfy the constraints.

        The other records are drawn again. The share is 1 if the schema has no
        constraints.
        """
        if not self.schema.has_rules:
            return 1.0
        is_broken = self.schema.broken(self._probe_records)
        return float(1 - is_broken.mean())

    @cached_property
    def rejecting_rules(self) -> list[tuple[str, float]]:
        """Constraints that the model's records break, with the share that breaks each.

        The constraint that is broken most often comes first. Constraints that are never
        broken are left out.
        """
        if not self.schema.has_rules:
            return []
        return rejecting_rules(self.schema, self._probe_records)

    @cached_property
    def _probe_records(self) -> EncodedTable:
        """Records of the model before any is rejected, the same ones at each call."""
        with _as_model_error():
            return self.model.draw(_PROBE_ROWS, public_random(0))

    @property
    def often_broken(self) -> str | None:
        """Warning that the constraints change the distribution of sampled records.

        None if at least half of the model's records satisfy the constraints.
        """
        if self.kept_share >= USUALLY_KEPT:
            return None
        return (
            f"of the records that the model draws, about {self.kept_share:.1%} keep to "
            "the constraints of the schema. The others are drawn again, which shifts "
            "the columns that constraints name: compare these with what was released, "
            "or drop a constraint that many records break "
            f"({describe_rules(self.rejecting_rules)})."
        )

    def with_verdict_of_rules(self) -> Synthesizer:
        """Lowers the verdict if few of the model's records satisfy the constraints.

        The other records are drawn again, which changes the distribution of columns. So
        the records are then not a good copy, even if the model is close to the release.

        Returns:
            The synthesizer with the lower verdict, or itself if the verdict is
            unchanged.
        """
        verdict = verdict_of_rules(self.kept_share, self.rejecting_rules)
        if verdict is None:
            return self
        return replace(self, summary=self.summary.with_verdict(verdict))

    def sample(
        self,
        n: int | None = None,
        *,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
        even: str | None = None,
        like: Any = None,
        independent: bool = False,
        calibrated: bool | Sequence[str] = False,
        given: Any = None,
    ) -> Any:
        """Samples synthetic records that satisfy the constraints of the schema.

        Args:
            n: Number of records, at least 0; omitted with `given`.
            seed: Seed for non-private randomness; None for different records at each
                call.
            where: Values that every record must have, by column, such as ``{"sex":
                "Female", "age": (18, 30)}``. A value is a level, a truth value, or None
                for missing; for numbers and dates it is one value or a closed interval,
                with None for an open end. All other columns follow the model, given
                these values.
            even: A column of levels or truth values. Each level gets the same number of
                records, to within one, whatever its share in the model. So a rare class
                is as large as the others.
            like: A table whose kind, order of columns and dtypes the sample gets. Its
                records are not used. Its dtypes may reveal the values from which they
                were chosen, as those of ``pandas.read_csv`` do.
            independent: Whether the records of a mixture are drawn independently. By
                default they are spread over the mixture, as in a stratified survey, so
                that a sample is closer to the model.
            calibrated: Whether the means, correlations and regressions of the sampled
                numbers equal the estimates of `infer`: for all columns whose second
                moments were released (True), or for these columns. The estimates do not
                become more certain by this. Needs the extra noisegate[scipy].
            given: A table in memory whose records are completed. Values in it stay;
                missing cells and missing columns are drawn given these values. The
                result contains the values of `given`, which the guarantee of the model
                does not cover.

        Returns:
            A PyArrow table with the columns and types of the schema. If the model was
            fitted to another kind of table in memory, a table of that kind.

        Raises:
            OptionError: if `n` is negative or not an integer; `where` names an unknown
                column, or a value that the column cannot have; `even` names a column
                without levels, or a column in `where`; `like` lacks a column, or has a
                type that cannot hold it; `calibrated` is combined with conditions, or
                its columns were not released together; `given` is combined with other
                options, does not fit the schema, or the model cannot complete records;
                or the table would not fit into memory.
            RejectionError: if at most 1,048,576 + 100 n candidates of the model do not
                give enough records that satisfy the constraints and `where`: see
                `noisegate.models.rejection`.
        """
        import pyarrow as pa

        batches: Iterator[pa.Table]
        if given is None:
            if n is None:
                raise OptionError("n=None: say how many records, as in sample(1000).")
            batches = self.batches(
                n,
                seed=seed,
                where=where,
                even=even,
                independent=independent,
                calibrated=calibrated,
            )
        else:
            if n is not None or where or even is not None or calibrated:
                raise OptionError(
                    "given has a record for each of the sample: leave n, where, even "
                    "and calibrated out."
                )
            from noisegate.models.completion import as_arrow_table

            table = as_arrow_table(given)
            n = table.num_rows
            batches = self.completed_batches(table, seed=seed)
        if self.often_broken is not None:
            warnings.warn(self.often_broken, UserWarning, stacklevel=2)
        _check_memory(n, len(self.schema.columns))
        tables = list(batches)
        if not tables:
            tables.append(decode(_no_records(self.schema), self.schema, stored=True))
        table = pa.concat_tables(tables)
        if like is not None:
            from noisegate.models.output.native_table import native_form

            return native_form(like, self.schema, exact=True)(table)
        return self.convert(table) if self.convert else table

    def infer(
        self, *questions: str, level: float = 0.95, finite: bool = False
    ) -> list[Estimate]:
        """Computes analyses, with intervals that include the privacy noise.

        The results are computed from the release. Analyses of sampled records have no
        such intervals. See `noisegate.answers.infer.infer` for the arguments.
        """
        from noisegate.answers.infer import infer

        return infer(self, *questions, level=level, finite=finite)

    @cached_property
    def evidence(self) -> Evidence:
        """Input of `infer`: the release, and records sampled once for its errors."""
        from noisegate.answers.evidence import Evidence

        return Evidence(self)

    @property
    def answers(self) -> Measurements:
        """All noisy tables of the release, with the standard deviation of their noise.

        Examples:
            >>> import pyarrow as pa
            >>> from noisegate import Schema, synthesize
            >>> from noisegate.schema import Boolean
            >>> patients = pa.table({"ill": [True, False, False, False] * 500})
            >>> schema = Schema([Boolean(name="ill")])
            >>> model = synthesize(patients, schema=schema, epsilon=1.0)
            >>> model.answers.best(["ill"]).to_pandas().columns.tolist()
            ['ill', 'count', 'noise_std']
        """
        from noisegate.answers.reading import measurements_of

        return measurements_of(self.release)

    def effective_n(self) -> list[Worth]:
        """Returns the effective sample size of this model, in real records.

        See `noisegate.answers.worth.effective_n`.
        """
        from noisegate.answers.worth import effective_n

        return effective_n(self)

    def batches(self, n: int, **options: Unpack[SampleOptions]) -> Iterator[pa.Table]:
        """Samples synthetic records batch by batch, in constant memory.

        Args:
            n: Number of records.
            options: As for `sample`.

        Returns:
            Arrow tables of at most 16,384 records each; none for ``n=0``.

        Raises:
            OptionError: as `sample` does, before the first batch.
            RejectionError: as `sample` does.
        """
        return (
            decode(records, self.schema, stored=True)
            for records in self.records(n, **options)
        )

    def completed_batches(
        self, given: pa.Table, *, seed: int | None = None
    ) -> Iterator[pa.Table]:
        """Completes records of which some values are given, batch by batch.

        Args:
            given: The given values; see `sample`.
            seed: Seed for non-private randomness.

        Returns:
            Arrow tables of at most 1,024 records each, in the order of `given`.

        Raises:
            OptionError: as `sample` does, before the first batch.
            RejectionError: as `sample` does.
        """
        from noisegate.models.completion import (
            CompletingModel,
            PartialRecords,
            completed_batches,
        )

        if self.schema.images is not None or not isinstance(
            self.model, CompletingModel
        ):
            raise OptionError(
                f"given: a model of method {self.certificate.method!r} cannot complete "
                "records; 'pairwise', the default of tables, can."
            )
        partial = PartialRecords.read(given, self.schema)
        batches = completed_batches(
            self.model,
            partial,
            public_random(seed),
            breaks_rule=self.schema.broken,
        )
        return (decode(records, self.schema, stored=True) for records in batches)

    def images(self, n: int, **options: Unpack[SampleOptions]) -> Iterator[ImageBatch]:
        """Samples synthetic images with their labels, in constant memory.

        With the same arguments, `sample` returns the same images as records of pixels.

        Args:
            n: Number of images.
            options: As `sample` takes them, such as ``where={"label": 3}``.

        Returns:
            Batches of images, of at most 64 MB in float64.

        Raises:
            OptionError: if the model was fitted to a table and has no images, or as
                `sample` does.
        """
        if self.schema.images is None:
            raise OptionError(
                "this model was fitted to a table and makes no images: take sample(n). "
                "A model of images is fitted with a schema of images, as "
                "noisegate.schema.pixel_schema(28, 28, labels=range(10)) makes it."
            )
        return (
            image_batch(records, self.schema) for records in self.records(n, **options)
        )

    def to_datasets(self, n: int, **options: Unpack[SampleOptions]) -> Any:
        """Samples a Hugging Face data set that is described by the certificate.

        Publish it with its method ``push_to_hub``.

        Args:
            n: Number of records.
            options: As for `sample`.

        Returns:
            A ``datasets.Dataset``. Images are one image column, with their labels as
            class names.

        Raises:
            MissingExtraError: if `datasets` is not installed.
            OptionError: as `sample` does.
        """
        from noisegate.models.output.sample_file import described_data_set

        if self.schema.images is None:
            table = replace(self, convert=None).sample(n, **options)
        else:
            as_table = extension("noisegate.pictures", "table", "what writes images")
            table = as_table(self.images(n, **options), self.schema.images)
        return described_data_set(table, str(self.certificate))

    def package(
        self,
        folder: str | Path,
        n: int,
        *,
        name: str | None = None,
        licence: str | None = None,
        **options: Unpack[SampleOptions],
    ) -> Path:
        """Writes a folder to hand out: synthetic records, descriptions and certificate.

        Args:
            folder: New folder.
            n: Number of records.
            name: Name of the file of records, which ends in .csv or .parquet; None for
                synthetic.csv, or synthetic.parquet if the records are images.
            licence: Licence of the records: an SPDX name such as CC-BY-4.0, or its
                address.
            options: As for `sample`.

        Returns:
            The folder, with a Frictionless `datapackage.json` and an MLCommons
            `croissant.json`.

        Raises:
            OptionError: if the folder exists or cannot be written, `name` has another
                ending, or as `sample` does.
        """
        from noisegate.models.output.sample_file import sample_writer
        from noisegate.models.package import new_package

        batches: Iterator[Any]
        if self.schema.images is None:
            batches = self.batches(n, **options)
        else:
            batches = self.images(n, **options)
        file_name = None if name is None else Path(name)
        package = new_package(Path(folder), file_name, self.release, licence=licence)
        # What the descriptions tell programs is plain CSV.
        plain_schema = replace(self.schema, file=PLAIN_CSV)
        with package as path, sample_writer(path, plain_schema, n) as write:
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
        calibrated: bool | Sequence[str] = False,
    ) -> Iterator[EncodedTable]:
        """Samples synthetic records in the encoding of the schema, in constant memory.

        Args:
            n: Number of records.
            seed: As for `sample`.
            where: As for `sample`.
            even: As for `sample`.
            independent: As for `sample`.
            calibrated: As for `sample`.

        Returns:
            Batches of at most 16,384 records; fewer if the records are large images.

        Raises:
            OptionError: as `sample` does, before any record is drawn.
            RejectionError: as `sample` does, from the iterator.
        """
        check_record_count(n)
        if n >= SAMPLE_LIMIT:
            raise OptionError(
                f"n={n:,}: at most {SAMPLE_LIMIT - 1:,} records are sampled at once; "
                "ask for fewer."
            )
        if seed is not None:
            check_seed(seed)

        if calibrated:
            if where or even is not None or independent:
                raise OptionError(
                    "calibrated rows are those of all records, chosen together: leave "
                    "where, even and independent out."
                )
            columns = None if calibrated is True else calibrated
            columns = self.calibrated_columns(columns)
            return self._calibrated_records(n, columns, seed)

        conditions = [where] if even is None else self._conditions_by_level(even, where)
        random = public_random(seed, independent=independent)
        batch_rows = max(self._batch_rows() // len(conditions), 1)
        rows_each, remaining_rows = divmod(n, len(conditions))
        parts = [
            # The first conditions take the rows that cannot be shared out evenly.
            self._accepted_records(
                rows_each + (index < remaining_rows), random, condition, batch_rows
            )
            for index, condition in enumerate(conditions)
        ]
        return _with_model_errors(mix_batches(parts, random))

    def calibrated_columns(
        self, columns: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """Returns the columns in which calibrated records agree with `infer`.

        Args:
            columns: The requested columns; None for all whose second moments were
                released, except those whose estimates are too noisy.

        Raises:
            OptionError: if the model is of images, no second moments were released, or
                a requested column is unknown or its estimates are too noisy.
        """
        from noisegate.models.calibrated import columns_to_calibrate

        if isinstance(columns, str):
            raise OptionError(f"calibrated={columns!r}: give a list of columns.")
        return columns_to_calibrate(self.evidence, columns)

    def _calibrated_records(
        self, n: int, columns: Sequence[str], seed: int | None
    ) -> Iterator[EncodedTable]:
        """Draws rows whose means and products agree with the release.

        Args:
            n: Number of rows.
            columns: The columns that agree.
            seed: Seed for non-private randomness.
        """
        from noisegate.models.calibrated import Calibration, calibrated_batches

        calibration = Calibration.of(self.evidence, columns)
        random = public_random(seed)

        def draw(count: int) -> Iterator[EncodedTable]:
            return self._accepted_records(count, random, None, BATCH_ROWS)

        return _with_model_errors(
            calibrated_batches(calibration, draw, n, seed=seed, batch_rows=BATCH_ROWS)
        )

    def _batch_rows(self) -> int:
        """Returns how many records a batch has, so that images do not fill the memory.

        Large images may be one in a batch.
        """
        if self.schema.images is None:
            return BATCH_ROWS
        images_in_memory = _BATCH_NUMBERS // self.schema.images.shape.size
        return min(max(images_in_memory, 1), BATCH_ROWS)

    def _accepted_records(
        self,
        n: int,
        random: torch.Generator,
        where: Mapping[str, Any] | None,
        batch_rows: int,
    ) -> Iterator[EncodedTable]:
        """Draws records that keep to the constraints and to one condition.

        A model that can compute its conditional distribution is conditioned first, so
        that fewer candidates are rejected.

        Raises:
            OptionError: if no record of the model can meet the condition.
        """
        region = requested_region(self.schema, where) if where else None
        model = self.model
        requested = "the constraints of the schema"
        if region is not None:
            condition = f"where={dict(where or {})!r}"
            if self.schema.has_rules:
                requested = f"{condition} and {requested}"
            else:
                requested = condition
            if isinstance(model, ConditionalModel):
                if not model.probability(region) > 0:
                    raise OptionError(
                        f"{requested}: the model gives no such record; ask for less at "
                        "once."
                    )
                model = model.given(region)

        def accept(records: EncodedTable) -> npt.NDArray[np.bool_]:
            is_kept = ~self.schema.broken(records)
            return is_kept if region is None else is_kept & region.contains(records)

        def explain(candidates: EncodedTable) -> str:
            return explain_rejection(rejecting_rules(self.schema, candidates))

        is_conditioned = region is not None or self.schema.has_rules
        return accepted_batches(
            model,
            n,
            random,
            accept=accept if is_conditioned else None,
            requested=requested,
            explain=explain,
            batch_rows=batch_rows,
        )

    def records_within(
        self, n: int, *, seed: int, limit: int
    ) -> tuple[EncodedTable, Tally]:
        """Samples up to `n` records from a limited number of candidates.

        It is meant for callers that can work with fewer records, such as the public
        page of a model.

        Args:
            n: Largest number of records.
            seed: Seed for non-private randomness. The records are the first ones that
                `records` returns for it.
            limit: Largest number of candidates.

        Returns:
            Records that satisfy the constraints, and the numbers of candidates that
            were drawn and accepted.
        """
        random = public_random(seed)
        if not self.schema.has_rules:
            records = EncodedTable.concatenate(list(self.records(n, seed=seed)))
            return records, Tally(drawn=n, accepted=n, yielded=n)
        return accepted_within(
            self.model,
            n,
            random,
            accept=lambda records: ~self.schema.broken(records),
            limit=limit,
        )

    def _conditions_by_level(
        self, even: str, where: Mapping[str, Any] | None
    ) -> list[Mapping[str, Any]]:
        """Returns one condition for each level of a column, each joined to `where`.

        Raises:
            OptionError: if the column is unknown or numeric, or `where` names it.
        """
        try:
            column = self.schema.coordinates.column(even)
        except SchemaError as error:
            raise OptionError(f"even: {error}") from None
        if column.numeric:
            raise OptionError(
                f"even={even!r}: the column holds numbers; name one of levels or of "
                "truth values."
            )
        if where and even in where:
            raise OptionError(
                f"even={even!r}: where={dict(where)!r} says the value of that column; "
                "leave one out."
            )
        return [{**(where or {}), even: level} for level in column.levels]

    def save(self, folder: str | Path) -> Path:
        """Writes the model into a new folder: safetensors and JSON, no pickle.

        See `noisegate.models.folder` for the files.

        Returns:
            The folder.

        Raises:
            ModelError: if the folder exists or cannot be written.
        """
        description = {
            "kind": self.model.kind,
            **self.model.to_json(),
            "fit": self.summary.to_json(),
        }
        # A caller's own `convert` cannot be stored; tables are Arrow after loading.
        form_to_json = getattr(self.convert, "to_json", None)
        if form_to_json is not None:
            description["form"] = form_to_json()
        return write_model(
            model_path(folder),
            release=self.release,
            tensors=self.model.tensors(),
            model=description,
        )

    @staticmethod
    def load(folder: str | Path) -> Synthesizer:
        """Loads a synthesizer that `save` wrote, and checks every hash.

        Raises:
            ModelError: if the folder is missing, broken, was changed, or contains a
                classifier.
        """
        from noisegate.models.output.native_table import saved_form

        release, tensors, description = read_model(model_path(folder))
        if description.get("kind") in (CLASSIFIER, NETWORK_CLASSIFIER):
            raise ModelError(
                f"{folder} holds a classifier, which draws no records: ask it with "
                "`noisegate predict`, or with noisegate.load; `noisegate explain` "
                "shows what one of dp-llm relies on."
            )
        try:
            model = model_class(description["kind"]).from_saved(
                release.schema, tensors, description
            )
            summary = FitSummary.from_json(description["fit"])
            # Older models have no form.
            convert = saved_form(description.get("form"), release.schema)
        except (
            *_DAMAGED_MODEL_ERRORS,
            AttributeError,
            RuntimeError,
            MemoryError,
        ) as error:
            raise ModelError(
                f"{folder}: the model cannot be rebuilt: {error}"
            ) from None
        return Synthesizer(
            release=release, model=model, summary=summary, convert=convert
        )


def load(folder: str | Path) -> FittedModel:
    """Loads a model of any kind from its folder, and checks every hash.

    Args:
        folder: Model folder, as `fit` or ``save`` writes it.

    Returns:
        A `Synthesizer`, a model of linked tables, or a classifier.

    Raises:
        ModelError: if the folder is missing, broken, or was changed.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, load, synthesize
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False] * 100})
        >>> schema = Schema([Boolean(name="ill")])
        >>> fitted = synthesize(table, schema=schema, epsilon=1.0)
        >>> load(fitted.save("loaded")).sample(2).column_names
        ['ill']
    """
    path = model_path(folder)
    kind = kind_in(path)
    if kind in (LINKED, CLASSIFIER, NETWORK_CLASSIFIER):
        loaded: FittedModel = model_class(kind).load(path)
        return loaded
    return Synthesizer.load(path)


def check_record_count(n: Any) -> None:
    """Requires that a number of records to sample is an integer, 0 or more.

    Raises:
        OptionError: if it is not.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise OptionError(
            f"n={n!r}: the number of records to sample must be a whole number, 0 or "
            "more."
        )


def requested_region(schema: Schema, where: Mapping[str, Any]) -> Region:
    """Returns the region of the records that have certain values.

    Args:
        schema: Schema of the records.
        where: Values or intervals by column, as `Synthesizer.sample` takes them.

    Raises:
        OptionError: if `where` is no mapping, or names an unknown column or a value
            that it cannot have.
    """
    if not isinstance(where, Mapping):
        raise OptionError(
            f"where={where!r} must map names of columns to values, as in "
            "{'sex': 'Female'}."
        )
    try:
        return schema.region(where)
    except SchemaError as error:
        raise OptionError(f"where: {error}") from None


def model_path(folder: Any) -> Path:
    """Returns the path of a model folder, which need not exist.

    Args:
        folder: What a caller gave as a folder.

    Raises:
        ModelError: if it is no path, or none of a disk, such as a URL.
    """
    is_path = isinstance(folder, str | Path)
    if not is_path or not str(folder).strip() or "\0" in str(folder):
        raise ModelError(f"folder={folder!r} must be the path of a model folder.")
    check_on_disk(Path(folder), "folder")
    return Path(folder)


def _check_memory(n: int, column_count: int) -> None:
    """Refuses a table that would have more cells than this machine has bytes.

    A machine that does not tell its memory, such as one with Windows, refuses none.
    """
    memory_bytes = math.inf
    if hasattr(os, "sysconf"):
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cell_count = n * column_count
    if cell_count > memory_bytes:
        raise OptionError(
            f"n={n:,}: that many records of {column_count:,} columns need more than "
            f"{cell_count / 1e9:,.0f} GB, and this machine has "
            f"{memory_bytes / 1e9:,.0f} GB of memory. Ask for fewer, or iterate over "
            "batches(n)."
        )


def _no_records(schema: Schema) -> EncodedTable:
    """Returns an encoded table without rows."""
    return EncodedTable(
        np.zeros((0, len(schema.layout.numeric))),
        np.zeros((0, len(schema.layout.coded)), dtype=np.int32),
    )


@contextmanager
def _as_model_error() -> Iterator[None]:
    """Turns what drawing from a damaged model raises into a `ModelError`.

    Hashes hold where somebody edits a folder and redoes them; but then tensors need not
    fit the description of the model.
    """
    try:
        yield
    except _DAMAGED_MODEL_ERRORS as error:
        raise ModelError(
            f"the model draws no records, its parts do not fit together: {error}."
        ) from error


def _with_model_errors(batches: Iterator[EncodedTable]) -> Iterator[EncodedTable]:
    """Yields batches of a model, which may turn out to be damaged."""
    with _as_model_error():
        yield from batches
