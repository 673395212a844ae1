"""Reads what a release states of one table of records, as `Measurements`.

A method knows which arrays of its release are tables of which columns, on which cells:
as a `ReleaseReader` it says so. What methods have in common is here: the counts of the
classes, the names of columns and of the terms of second moments, and their cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from noisegate.answers.domain import Floats, domain_of
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_moments import NoisyMoments, Term
from noisegate.answers.noisy_table import NoisyTable
from noisegate.errors import OptionError, UserError
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency
from noisegate.privacy.release import Release
from noisegate.queries.moments import Moments, ScaledNumber
from noisegate.registry import METHODS
from noisegate.schema import Layout
from noisegate.schema.layout import bound_positions, bounds_of


class ReleaseReader(ABC):
    """The ability to say which arrays of a release are tables of which columns.

    A method has it whose releases state more tables than the counts of the classes.
    """

    @abstractmethod
    def measurements(self, release: Release) -> Measurements:
        """Returns all that a release of this method states of its table of records."""

    @abstractmethod
    def held_out_measurements(self, release: Release) -> Measurements:
        """Returns the noisy tables that the fit did not use, if any were measured."""


def stated_measurements(method: object, release: Release) -> Measurements:
    """Returns all that a release states of its table of records.

    Args:
        method: The method of the release; if it is no `ReleaseReader`, the release
            states the counts of the classes, and nothing where there are none.
        release: A release of one table.
    """
    if isinstance(method, ReleaseReader):
        return method.measurements(release)
    layout = release.schema.layout
    domain = domain_of(layout, ())
    known_total = public_total(release.certificate)
    counts = release.values.get("counts")
    label = layout.label
    if counts is None or label is None or counts.size != layout.classes:
        return Measurements(domain, (), known_total=known_total)
    label_domain = domain.project([layout.coded[label].name])
    noise_std = release.noise_std["counts"]
    class_counts = NoisyTable.of(label_domain, counts.ravel(), noise_std=noise_std)
    return Measurements(domain, (class_counts,), known_total=known_total)


def measurements_of(release: Release) -> Measurements:
    """Returns all that a release states, as its own method reads it.

    Args:
        release: A release of one table, by any installed method.

    Raises:
        OptionError: if it is of images, its method is not installed, or it counts
            nothing.
    """
    certificate = release.certificate
    if release.schema.images is not None:
        raise OptionError("infer answers from models of tables; this one is of images.")
    try:
        method_class = METHODS.find(certificate.method)
        settings = certificate.public.get("settings", {})
        method = method_class.from_json(settings)
        measurements = stated_measurements(method, release)
    except UserError as error:
        raise OptionError(
            f"infer needs what the method of the model released: {error}"
        ) from None
    if not measurements.tables:
        raise OptionError(
            f"method={certificate.method!r} released no counts that answers could rest "
            "on; fit with 'pairwise', the default of tables."
        )
    return measurements


def public_total(certificate: Certificate) -> float | None:
    """Returns the number of records where it is public and the same for neighbours."""
    records = certificate.public.get("records")
    if certificate.adjacency is not Adjacency.REPLACE_ONE or records is None:
        return None
    return float(records)


def read_moments(
    layout: Layout, feature_map: Moments, values: Floats, noise_std: float
) -> NoisyMoments:
    """Names the terms of released sums of products.

    Args:
        layout: The columns.
        feature_map: The map that was asked for.
        values: The sums of its products, in records, (products,).
        noise_std: Standard deviation of the noise on each.
    """
    return NoisyMoments(
        feature_map=feature_map,
        terms=terms_of(layout, feature_map),
        values=values,
        variance=np.full(len(values), noise_std**2),
    )


def terms_of(layout: Layout, feature_map: Moments) -> tuple[Term, ...]:
    """Returns the terms of second moments, all but 1, by their columns' names.

    Args:
        layout: The columns.
        feature_map: A map of records to products of terms.
    """
    terms = []
    for index, code in feature_map.terms:
        if index >= len(feature_map.numeric):
            coded_index, _ = feature_map.coded[index - len(feature_map.numeric)]
            column = layout.coded[coded_index]
            levels = (*column.levels, None)
            assert code is not None
            terms.append(Term(column.name, "level", levels[code]))
        elif code is None:
            terms.append(_number_term(layout, feature_map.numeric[index]))
        else:
            numeric = layout.numeric[feature_map.numeric[index].index]
            terms.append(Term(numeric.name, "present"))
    return tuple(terms)


def _number_term(layout: Layout, scaled: ScaledNumber) -> Term:
    """Returns the term of a number, with its range in the unit of the column."""
    column = layout.numeric[scaled.index]
    start, stop = bound_positions(column)
    lower, upper = bounds_of(column)
    unit = (float(upper) - float(lower)) / (stop - start)
    middle_position = (scaled.low + scaled.high) / 2
    return Term(
        column.name,
        "number",
        centre=float(lower) + unit * (middle_position - start),
        scale=unit * (scaled.high - scaled.low) / 2,
    )
