"""How many records the rows of a copy are worth, for the mean of a column and for two columns together.

As many records of the population, without noise, would say as much as the release does. With S the variance of a sum
by the sampling of n records, N the variance of its noise and B what it may be off by beside, squared, the release is
worth n S / (S + N + B). Of a column of levels these are sums over its levels; of two columns, over the products of
their terms, less what the columns alone say, with S as if they were independent: n V(x) V(y).
"""

import json
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from noisegate.answers.evidence import DrownedError, Evidence, Sums
from noisegate.errors import OptionError
from noisegate.models.synthesizer import Synthesizer

_OF_BIAS = 0.5  # part of the squared bound on what cells bias that counts: the model knows more of their inside
_MOST_COLUMNS = 40  # up to which pairs are looked at
_WRONG = "P-values and standard errors computed from the rows are wrong; `noisegate infer` gives right ones."


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What the mean or the shares of one column are worth, or how two columns go together."""

    columns: tuple[str, ...]
    records: float  # so many without noise would say as much; 0 where it was not measured, or drowned


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
        found.append(
            Worth(columns=tuple(evidence.names[one] for one in chosen), records=records)
        )
    return found


def _worth(evidence: Evidence, sums: Sums, chosen: tuple[int, ...]) -> float:
    records, off = (
        max(evidence.records[0], 1.0),
        sums.variance + _OF_BIAS * np.square(sums.bias).sum(axis=1),
    )
    matrix, order = sums.matrix(sums.values) / records, sorted(chosen)
    terms = [
        [
            at + 1
            for at, (place, code) in enumerate(sums.terms.terms)
            if order[place] == one and code != -1
        ]
        for one in chosen
    ]
    spreads = [
        np.maximum(np.diag(matrix)[own] - matrix[0, own] ** 2, 0.0) for own in terms
    ]
    left, right = sums.terms.entries
    if len(chosen) == 1:
        inside, sampled = (
            (left == 0) & np.isin(right, terms[0]),
            float(spreads[0].sum()),
        )
    else:
        one, other = (np.isin([left, right], own) for own in terms)
        inside, sampled = (
            (one & other[::-1]).any(axis=0),
            float(spreads[0].sum() * spreads[1].sum()),
        )
    # Shares are of what the k counts add up to: their noise is I - p1', whose squares add up to k - 2 + k p'p.
    shares = [matrix[0, own] for own in terms]
    free = float(
        np.prod([1 - 2 / len(p) + float(p @ p) if len(p) > 1 else 1.0 for p in shares])
    )
    sampled *= records
    return float(
        records * sampled / max(sampled + free * float(off[inside].sum()), 1e-12)
    )


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What has to be known of rows that are handed on: in words, for files, and for programs."""

    sentence: str
    warning: str | None  # where there are more rows than records
    metadata: dict[str, str]
    told: dict[
        str, Any
    ]  # records released, and the least and the most that a column and a pair are worth


def guard(model: Synthesizer, rows: int) -> Guard | None:
    """Returns what so many rows of a model are worth; None where its method released nothing that tells."""
    try:
        found, released = effective_n(model), round(Evidence(model).records[0])
    except OptionError:
        return None
    told, parts = dict[str, Any](released=released), []
    for number, name, what in (
        (1, "mean", "for the mean of a column"),
        (2, "pair", "for two columns together"),
    ):
        kept = [
            one for one in found if len(one.columns) == number and round(one.records)
        ]
        some = sorted(kept, key=lambda one: one.records)
        if some:
            told[name] = [_told(some[0]), _told(some[-1])]
            names, least = " and ".join(some[0].columns), f"{some[0].records:,.0f}"
            parts.append(f"{what} {least} ({names}) to {some[-1].records:,.0f} records")
    if nothing := sum(not round(one.records) for one in found):
        what = (
            "1 column or pair, which was"
            if nothing == 1
            else f"{nothing} columns or pairs, which were"
        )
        parts.append(f"nothing for {what} not measured or which the noise hides")
    sentence = f"At most they are worth, {'; '.join(parts)}. {_WRONG}"
    more = f"{rows:,} rows were drawn from a release of about {released:,} records: they hold no more than these."
    listed = json.dumps([_told(one) for one in found])
    metadata = {
        "noisegate.note": sentence,
        "noisegate.released": str(released),
        "noisegate.effective_n": listed,
    }
    return Guard(
        sentence=sentence,
        warning=more if rows > released else None,
        metadata=metadata,
        told=told,
    )


def _told(one: Worth) -> dict[str, Any]:
    return {"columns": list(one.columns), "records": round(one.records)}
