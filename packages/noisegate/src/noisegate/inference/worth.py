"""How many records the rows of a copy are worth, for the mean of a column and for two columns together.

As many records of the population, without noise, would say as much as the release does. With S the variance of a sum
by the sampling of n records, N the variance of its noise and B what it may be off by beside, squared, the release is
worth n S / (S + N + B). Of a column of levels these are sums over its levels; of two columns, over the products of
their terms, less what the columns alone say, with S as if they were independent: n V(x) V(y).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.errors import OptionError
from noisegate.inference.evidence import DrownedError, Evidence, Sums

if TYPE_CHECKING:
    from noisegate.models.synthesizer import Synthesizer

# Part of the squared bound on what cells bias that counts: the model knows more of what is inside them than the bound.
_OF_BIAS = 0.5
# Columns up to which pairs are looked at.
_MOST_COLUMNS = 40
_WRONG = "P-values and standard errors computed from the rows are wrong; `noisegate infer` gives right ones."


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What one statistic of a copy is worth.

    Attributes:
        columns: One column, for its mean or the shares of its levels, or two, for how they go together.
        records: So many records without noise would say as much; 0 where it was not measured, or drowned in the noise.
    """

    columns: tuple[str, ...]
    records: float


def effective_n(model: Synthesizer) -> list[Worth]:
    """Returns what the release of a model is worth, for each column and each pair; rows drawn of it are worth no more.

    Pairs are left out of tables of more than 40 columns.

    Raises:
        OptionError: if the model is not of one table, or its method released no tables.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, synthesize
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False, False, False] * 500})
        >>> model = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> (found,) = effective_n(model)
        >>> found.columns, 1000 < found.records < 2100
        (('ill',), True)
    """
    evidence = Evidence(model)
    columns = range(len(evidence.names))
    found = []
    pairs = combinations(columns, 2) if len(columns) <= _MOST_COLUMNS else ()
    for chosen in [*((one,) for one in columns), *pairs]:
        try:
            records = _worth(evidence, evidence.sums(chosen), chosen)
        except (OptionError, DrownedError):
            records = 0.0
        found.append(Worth(columns=tuple(evidence.names[one] for one in chosen), records=records))
    return found


def _worth(evidence: Evidence, sums: Sums, chosen: tuple[int, ...]) -> float:
    records, off = max(evidence.records[0], 1.0), sums.variance + _OF_BIAS * np.square(sums.bias).sum(axis=1)
    matrix, order = sums.matrix(sums.values) / records, sorted(chosen)
    terms = [
        [at + 1 for at, (place, code) in enumerate(sums.terms.terms) if order[place] == one and code != -1]
        for one in chosen
    ]
    spreads = [np.maximum(np.diag(matrix)[own] - matrix[0, own] ** 2, 0.0) for own in terms]
    left, right = sums.terms.entries
    if len(chosen) == 1:
        inside, sampled = (left == 0) & np.isin(right, terms[0]), float(spreads[0].sum())
    else:
        inside = (np.isin(left, terms[0]) & np.isin(right, terms[1])) | (
            np.isin(left, terms[1]) & np.isin(right, terms[0])
        )
        sampled = float(spreads[0].sum() * spreads[1].sum())
    # Shares are of what the k counts add up to: their noise is I - p1', whose squares add up to k - 2 + k p'p.
    shares = [matrix[0, own] for own in terms]
    free = float(np.prod([1 - 2 / len(p) + float(p @ p) if len(p) > 1 else 1.0 for p in shares]))
    sampled *= records
    return float(records * sampled / max(sampled + free * float(off[inside].sum()), 1e-12))


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What has to be known of rows that are handed on.

    Attributes:
        released: Records that the release is of, about.
        means, pairs: The least and the most that a column, or a pair that was measured, is worth; None without one.
        metadata: The same and the whole list, for the metadata of files.
        sentence: In words.
        warning: Where there are more rows than records, what that means.
    """

    released: int
    means: tuple[Worth, Worth] | None
    pairs: tuple[Worth, Worth] | None
    metadata: dict[str, str]
    sentence: str
    warning: str | None

    def to_json(self) -> dict[str, Any]:
        """Returns the ends as JSON values."""
        ends = {"mean": self.means, "pair": self.pairs}
        told = {name: [_told(one) for one in both] for name, both in ends.items() if both is not None}
        return {"released": self.released, **told}


def guard(model: Synthesizer, rows: int) -> Guard | None:
    """Returns what so many rows of a model are worth; None where its method released nothing that tells."""
    try:
        found, released = effective_n(model), round(Evidence(model).records[0])
    except OptionError:
        return None
    ends, parts = [], []
    for number, what in ((1, "for the mean of a column"), (2, "for two columns together")):
        some = sorted((one for one in found if len(one.columns) == number and one.records), key=lambda one: one.records)
        ends.append((some[0], some[-1]) if some else None)
        if some:
            names, least = " and ".join(some[0].columns), f"{some[0].records:,.0f}"
            parts.append(f"{what} {least} ({names}) to {some[-1].records:,.0f} records")
    sentence = f"At most they are worth, {'; '.join(parts)}. {_WRONG}"
    warning = None
    if rows > released:
        warning = (
            f"{rows:,} rows were drawn from a release of about {released:,} records: they hold no more than these."
        )
    listed = json.dumps([_told(one) for one in found])
    metadata = {"noisegate.note": sentence, "noisegate.released": str(released), "noisegate.effective_n": listed}
    return Guard(released=released, means=ends[0], pairs=ends[1], metadata=metadata, sentence=sentence, warning=warning)


def _told(one: Worth) -> dict[str, Any]:
    return {"columns": list(one.columns), "records": round(one.records)}
