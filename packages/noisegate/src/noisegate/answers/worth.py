"""The effective sample size of a copy.

As many records of the population, without noise, would say as much as the release does.
Let S be the variance of a sum by the sampling of n records, N the variance of its noise
and B the square of what it may be off by beside. Its effective sample size is
n·S/(S + N + B) records:

- for the mean of a number; of a column with levels, for their shares, where the three
  are sums over the levels;
- for how two columns go together, where they are sums over the products of their terms,
  less what the columns alone say, and S is as if they were independent: n·V(x)·V(y).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from noisegate.answers.evidence import (
    Evidence,
    ReleasedModel,
    TooNoisyError,
    evidence_of,
)
from noisegate.answers.noisy_moments import MomentEstimates
from noisegate.errors import OptionError

# The part of the squared bound on the bias of cells that counts: the model knows more
# of their inside.
_PART_OF_BIAS = 0.5
# Pairs are examined in tables of up to so many columns.
_MAX_COLUMNS_FOR_PAIRS = 40
# Keeps a quotient finite where a sum varies neither by noise nor by sampling.
_MIN_VARIANCE = 1e-12
_WARNING = (
    "P-values and standard errors computed from the rows are wrong; `noisegate infer` "
    "gives right ones."
)


@dataclass(frozen=True, kw_only=True)
class Worth:
    """Effective sample size for one column, or for how two columns go together.

    Attributes:
        columns: The column, or both.
        records: So many without noise would say as much; 0 where they were not
            measured, or are too noisy.
    """

    columns: tuple[str, ...]
    records: float

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON values, with whole records."""
        return {"columns": list(self.columns), "records": round(self.records)}


def effective_n(model: ReleasedModel) -> list[Worth]:
    """Returns the effective sample size for each column and each pair of columns.

    Rows drawn from the model hold no more information. Pairs are left out of tables of
    more than 40 columns.

    Raises:
        OptionError: if the model is not of one table, or its method released no tables.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, synthesize
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False, False, False] * 500})
        >>> model = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> (worth,) = effective_n(model)
        >>> worth.columns, 1000 < worth.records < 2100
        (('ill',), True)
    """
    evidence = evidence_of(model)
    columns_of_worths: list[tuple[str, ...]] = [(name,) for name in evidence.names]
    if len(evidence.names) <= _MAX_COLUMNS_FOR_PAIRS:
        columns_of_worths += combinations(evidence.names, 2)
    worths = []
    for columns in columns_of_worths:
        try:
            records = _worth(evidence, columns)
        except (OptionError, TooNoisyError):
            records = 0.0
        worths.append(Worth(columns=columns, records=records))
    return worths


def _worth(evidence: Evidence, columns: tuple[str, ...]) -> float:
    """Computes the effective sample size for one or two columns."""
    moments = evidence.moments(columns)
    records = max(evidence.total.value, 1.0)
    means = moments.matrix(moments.values) / records
    # Whether a number is present says nothing of its mean.
    indices_of_columns = [
        [
            index
            for index in moments.indices(name)
            if moments.terms[index - 1].kind != "present"
        ]
        for name in columns
    ]
    # The variance of a record's terms, summed over the terms of each column.
    term_variances = 1.0
    for indices in indices_of_columns:
        variances = np.diag(means)[indices] - means[0, indices] ** 2
        term_variances *= float(np.maximum(variances, 0.0).sum())
    noise = _free_variance(moments, indices_of_columns)
    is_relevant = _is_product_of(moments, indices_of_columns)
    squared_bias = float(np.square(moments.bias[is_relevant]).sum())
    errors = noise + _PART_OF_BIAS * squared_bias
    sampling = records * term_variances
    return records * sampling / max(sampling + errors, _MIN_VARIANCE)


def _free_variance(
    moments: MomentEstimates, indices_of_columns: Sequence[Sequence[int]]
) -> float:
    """Sums the noise of products of one term of each column, as far as it matters.

    Of a column with levels only the shares p of its counts matter: noise e of counts
    becomes F·e = e − p·(1'e), which takes off what all counts have in common. Sums that
    agree are R·M·R'. With D the variances of the entries of M, and g and h the squares
    of the columns of F·R for the terms of either column, the sum is g'·D·h.

    Args:
        moments: The products.
        indices_of_columns: Indices of the terms of one or two columns.
    """
    variances = moments.matrix(np.square(moments.source_std))
    of_columns = []
    for indices in indices_of_columns:
        of_terms = moments.reduction[indices]
        if len(indices) > 1:
            counts = moments.matrix(moments.values)[0, indices]
            in_common = of_terms.sum(axis=0)
            of_terms = of_terms - np.outer(counts / counts.sum(), in_common)
        of_columns.append(np.square(of_terms).sum(axis=0))
    if len(of_columns) == 1:
        return float(of_columns[0] @ variances[:, 0])
    return float(of_columns[0] @ variances @ of_columns[1])


def _is_product_of(
    moments: MomentEstimates, indices_of_columns: Sequence[Sequence[int]]
) -> Any:
    """Tells which products are of one term of each column, (products,)."""
    left, right = moments.factors
    if len(indices_of_columns) == 1:
        return (left == 0) & np.isin(right, indices_of_columns[0])
    first, second = indices_of_columns
    in_order = np.isin(left, first) & np.isin(right, second)
    in_reverse = np.isin(left, second) & np.isin(right, first)
    return in_order | in_reverse


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What has to be known of rows that are passed on.

    Attributes:
        sentence: In words.
        warning: In words, where there are more rows than records; else None.
        metadata: For files, as text.
        summary: For programs: how many records were released, and the least and the
            most that a column ("mean") and a pair ("pair") have.
    """

    sentence: str
    warning: str | None
    metadata: dict[str, str]
    summary: dict[str, Any]


def guard(model: ReleasedModel, rows: int) -> Guard | None:
    """Returns the effective sample size of rows of a model; None if unknown."""
    try:
        worths = effective_n(model)
        released = round(evidence_of(model).total.value)
    except OptionError:
        return None
    summary: dict[str, Any] = {"released": released}
    parts = []
    for n_columns, key, purpose in (
        (1, "mean", "means of columns"),
        (2, "pair", "pairs of columns"),
    ):
        usable = [
            worth
            for worth in worths
            if len(worth.columns) == n_columns and round(worth.records) > 0
        ]
        if not usable:
            continue
        least = min(usable, key=lambda worth: worth.records)
        most = max(usable, key=lambda worth: worth.records)
        summary[key] = [least.to_json(), most.to_json()]
        names = " and ".join(least.columns)
        parts.append(
            f"{purpose}: {least.records:,.0f} ({names}) to {most.records:,.0f} records"
        )
    n_worthless = sum(round(worth.records) == 0 for worth in worths)
    if n_worthless == 1:
        parts.append("1 column or pair: 0, as it was not measured or is too noisy")
    elif n_worthless > 1:
        parts.append(
            f"{n_worthless} columns or pairs: 0, as they were not measured or are too "
            "noisy"
        )
    sentence = f"Effective sample size at most: {'; '.join(parts)}. {_WARNING}"
    warning = None
    if rows > released:
        warning = (
            f"{rows:,} rows were drawn from a release of about {released:,} "
            "records: they hold no more information than these."
        )
    return Guard(
        sentence=sentence,
        warning=warning,
        metadata={
            "noisegate.note": sentence,
            "noisegate.released": str(released),
            "noisegate.effective_n": json.dumps([worth.to_json() for worth in worths]),
        },
        summary=summary,
    )
