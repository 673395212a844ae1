"""What the public page of a model is about: its release, and what was drawn from the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from noisegate.answers.measurements import Measurements
from noisegate.answers.verdict import Verdict
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable, ImageForm
from noisegate.schema.linked.links import Link
from noisegate_evaluate.reporting.released import MeasuredTable, PairError

if TYPE_CHECKING:
    from noisegate.models.record_model import FittedModel

ReadRelease: TypeAlias = Callable[[Release], Measurements]
"""From a release to all that it states."""


@dataclass(frozen=True, kw_only=True)
class ReleasedLink:
    """What the release says of one link of linked tables.

    Attributes:
        link: The link.
        released: Tables of its transitions.
        drawn: One transition of each synthetic family, encoded.
    """

    link: Link
    released: Measurements
    drawn: EncodedTable


@dataclass(frozen=True, kw_only=True)
class ModelRules:
    """How many records of a model keep to the rules of the schema, where most do not.

    Attributes:
        drawn: Number of records that the model drew.
        accepted: How many of them keep to all rules.
        rejecting: Rules, and the share of the records that breaks each, those that
            reject most first.
    """

    drawn: int
    accepted: int
    rejecting: Sequence[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class PublicPage:
    """What the public page of a model is about.

    Attributes:
        model: The model.
        release: The release that it was fitted to.
        verdict: What the fit came to; None where nobody knows.
        discrepancy: Distance from the model to the release, over what the noise
            explains; None where nobody knows.
        heading: What the owner says: title, owner and purpose.
        is_dated: Whether the page says the day.
        unmeasured_pairs: Number of pairs of columns that were not measured.
        read_release: Reads all that a release states, as the method does that made the
            model; None if its package is not installed.
        subject: What was made, in words.
        total: How many records there are, and how well that is known, in words.
        columns: Name, kind and values of each column; None of images.
        relations: Relations between columns, in words.
        constraints: Rules of records, in words.
        weights: The column of survey weights; None without.
        images: The form of images; None of tables.
        has_moments: Whether moments of the columns were released.
        is_of_stream: Whether the release is of a stream.
        drawn: Number of synthetic records that are shown; None of a classifier.
        picture: A picture of synthetic images, PNG; empty without.
        tables: Each measured column beside the synthetic records.
        pair_errors: What noise does to each pair of columns.
        held_out: Tables that the fit never saw, beside the synthetic records.
        bounds: What the method says of the error of its queries, in words.
        rules: How many records keep to the rules; None where most do.
        refusal: Why no linked tables could be drawn; empty where they could.
        links: The links of linked tables, parents first.
    """

    model: FittedModel
    release: Release
    verdict: Verdict | None
    discrepancy: float | None
    heading: Mapping[str, str]
    is_dated: bool
    unmeasured_pairs: int
    read_release: ReadRelease | None = None
    subject: str = ""
    total: tuple[str, str] = ("", "")
    columns: Sequence[tuple[str, str, str]] | None = ()
    relations: Sequence[str] = ()
    constraints: Sequence[str] = ()
    weights: str | None = None
    images: ImageForm | None = None
    has_moments: bool = False
    is_of_stream: bool = False
    drawn: int | None = 0
    picture: bytes = b""
    tables: Sequence[MeasuredTable] = ()
    pair_errors: Sequence[PairError] = ()
    held_out: Sequence[MeasuredTable] = ()
    bounds: Sequence[str] = ()
    rules: ModelRules | None = None
    refusal: str = ""
    links: Sequence[ReleasedLink] = ()
