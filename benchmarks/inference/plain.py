"""The same questions, answered as textbooks do of rows that are taken for records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from noisegate.answers.questions.question import Question

_TIMES = 1.959964
Found = list[tuple[str, float | None, float | None, float | None, float | None]]


def answers(rows: Any, asked: Question) -> Found:
    """Returns (name, value, low, high, p) of each number that is asked for, with the names that `infer` gives."""
    frame = rows.to_pandas() if hasattr(rows, "to_pandas") else rows
    compute: Callable[[pd.DataFrame, Any], Found] = _ANSWERS[asked.name]
    return compute(frame, asked)


def _about(
    name: str, value: float, error: float
) -> tuple[str, float, float, float, None]:
    return (
        name,
        float(value),
        float(value - _TIMES * error),
        float(value + _TIMES * error),
        None,
    )


def _levels(column: pd.Series) -> list[Any]:
    return sorted(column.unique())


def _groups(frame: pd.DataFrame, asked: Any, values: pd.Series) -> Found:
    if not asked.groups:
        return [
            _about(asked.text, values.mean(), values.std() / math.sqrt(len(values)))
        ]
    (group,) = asked.groups
    parts = [
        (f"{group} = {level}", values[frame[group] == level])
        for level in _levels(frame[group])
    ]
    each = [
        (name, part.mean(), part.std() / math.sqrt(max(len(part), 1)))
        for name, part in parts
    ]
    found = [_about(*one) for one in each]
    for name, mean, error in each[1:]:
        found.append(
            _about(
                f"difference of {name} to {each[0][0]}",
                mean - each[0][1],
                math.hypot(error, each[0][2]),
            )
        )
    return found


def _mean(frame: pd.DataFrame, asked: Any) -> Found:
    return _groups(frame, asked, frame[asked.columns[0]].astype(float))


def _is(frame: pd.DataFrame, asked: Any) -> pd.Series:
    column = frame[asked.columns[0]]
    return (column.astype(str).str.lower() == asked.level.lower()).astype(float)


def _share(frame: pd.DataFrame, asked: Any) -> Found:
    return _groups(frame, asked, _is(frame, asked))


def _share_below(frame: pd.DataFrame, asked: Any) -> Found:
    is_below = (frame[asked.column] < asked.bound).astype(float)
    share = is_below.mean()
    return [_about(asked.text, share, is_below.std() / math.sqrt(len(frame)))]


def _count(frame: pd.DataFrame, asked: Any) -> Found:
    found = _is(frame, asked)
    share = found.mean()
    return [
        _about(
            f"{asked.column} = {asked.level}",
            share * len(frame),
            math.sqrt(len(frame) * share * (1 - share)),
        )
    ]


def _quantile(frame: pd.DataFrame, asked: Any) -> Found:
    values, (p,) = np.sort(frame[asked.columns[0]].to_numpy(float)), asked.probabilities
    half = _TIMES * math.sqrt(p * (1 - p) / len(values))
    value, low, high = np.quantile(values, [p, max(p - half, 0), min(p + half, 1)])
    return [(asked.text, float(value), float(low), float(high), None)]


def _design(
    frame: pd.DataFrame, names: tuple[str, ...]
) -> tuple[np.ndarray, list[str]]:
    columns, told = [np.ones(len(frame))], ["intercept"]
    for name in names:
        if frame[name].dtype == bool or not pd.api.types.is_numeric_dtype(frame[name]):
            for level in _levels(frame[name])[1:]:
                columns.append((frame[name] == level).to_numpy(float))
                told.append(f"{name} = {level}")
        else:
            columns.append(frame[name].to_numpy(float))
            told.append(name)
    return np.column_stack(columns), told


def _number(column: pd.Series) -> np.ndarray:
    if column.dtype == bool or pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float)
    return (column == _levels(column)[1]).to_numpy(float)


def _corr(frame: pd.DataFrame, asked: Any) -> Found:
    return _correlation(frame, asked, ())


def _partial(frame: pd.DataFrame, asked: Any) -> Found:
    return _correlation(frame, asked, asked.others)


def _correlation(frame: pd.DataFrame, asked: Any, others: tuple[str, ...]) -> Found:
    design, _ = _design(frame, others)
    left, right = (_number(frame[name]) for name in (asked.first, asked.second))
    left, right = (
        one - design @ np.linalg.lstsq(design, one, rcond=None)[0]
        for one in (left, right)
    )
    r = float(np.corrcoef(left, right)[0, 1])
    half = _TIMES / math.sqrt(len(frame) - 3)
    return [
        (
            asked.text,
            r,
            math.tanh(math.atanh(r) - half),
            math.tanh(math.atanh(r) + half),
            None,
        )
    ]


def _ols(frame: pd.DataFrame, asked: Any) -> Found:
    design, told = _design(frame, asked.columns[1:])
    outcome = _number(frame[asked.columns[0]])
    inverse = np.linalg.pinv(design.T @ design)
    found = inverse @ design.T @ outcome
    scores = design * (outcome - design @ found)[:, None]
    errors = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    return [_about(*one) for one in zip(told, found, errors, strict=True)]


def _logit(frame: pd.DataFrame, asked: Any) -> Found:
    return _newton(
        frame,
        asked,
        lambda score: 1 / (1 + np.exp(-score)),
        lambda mean: mean * (1 - mean),
    )


def _poisson(frame: pd.DataFrame, asked: Any) -> Found:
    return _newton(
        frame, asked, lambda score: np.exp(np.minimum(score, 50)), lambda mean: mean
    )


def _newton(frame: pd.DataFrame, asked: Any, link: Any, slope: Any) -> Found:
    design, told = _design(frame, asked.columns[1:])
    centre, scale = (
        np.r_[0.0, design[:, 1:].mean(0)],
        np.r_[1.0, np.maximum(design[:, 1:].std(0), 1e-9)],
    )
    turned = (design - centre) / scale
    outcome, found = _number(frame[asked.columns[0]]), np.zeros(len(told))
    hessian = np.eye(len(told))
    for _ in range(40):
        mean = link(turned @ found)
        hessian = (turned * slope(mean)[:, None]).T @ turned
        step = np.linalg.pinv(hessian) @ turned.T @ (outcome - mean)
        found = found + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    back = np.diag(1 / scale)
    back[0] -= centre / scale
    errors = np.sqrt(np.diag(back @ np.linalg.pinv(hessian) @ back.T))
    return [_about(*one) for one in zip(told, back @ found, errors, strict=True)]


def _odds(frame: pd.DataFrame, asked: Any) -> Found:
    cells = (
        pd.crosstab(*(frame[name] for name in asked.columns)).to_numpy(float).ravel()
        + 0.5
    )
    if len(cells) < 4:
        return []
    value, error = (
        math.log(cells[0] * cells[3] / cells[1] / cells[2]),
        math.sqrt((1 / cells).sum()),
    )
    return [
        (
            asked.text,
            math.exp(value),
            math.exp(value - _TIMES * error),
            math.exp(value + _TIMES * error),
            None,
        )
    ]


def _crosstab(frame: pd.DataFrame, asked: Any) -> Found:
    row, column = asked.columns
    answers_of_cells = []
    for row_level in _levels(frame[row]):
        for column_level in _levels(frame[column]):
            is_in_cell = (frame[row] == row_level) & (frame[column] == column_level)
            share = is_in_cell.mean()
            error = math.sqrt(share * (1 - share) / len(frame))
            name = f"{row} = {row_level}, {column} = {column_level}"
            answers_of_cells.append(_about(name, share, error))
    return answers_of_cells


def _chi2(frame: pd.DataFrame, asked: Any) -> Found:
    cells = pd.crosstab(*(frame[name] for name in asked.columns))
    statistic, p, *_ = stats.chi2_contingency(cells, correction=False)
    return [(asked.text, float(statistic), None, None, float(p))]


def curve(frame: pd.DataFrame, asked: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns days, the share that survives each by Kaplan and Meier, and its standard error by Greenwood."""
    time, event = (
        frame[asked.columns[0]].to_numpy(float),
        frame[asked.columns[1]].to_numpy(bool),
    )
    days, place = np.unique(time, return_inverse=True)
    leaving, died = np.bincount(place), np.bincount(place, weights=event)
    at_risk = len(time) - np.cumsum(leaving) + leaving
    known = np.cumsum(at_risk == died) == 0
    days, died, at_risk = days[known], died[known], at_risk[known]
    surviving = np.cumprod(1 - died / at_risk)
    return (
        days,
        surviving,
        surviving * np.sqrt(np.cumsum(died / (at_risk * (at_risk - died)))),
    )


def surviving(frame: pd.DataFrame, asked: Any, name: str) -> float:
    """Returns the share that survives as `infer` names it: "beyond 30.5", or "sex = f: beyond 30.5"."""
    group, _, end = name.rpartition("beyond ")
    if asked.group is not None:
        frame = frame[
            frame[asked.group].astype(str)
            == group.removeprefix(f"{asked.group} = ").removesuffix(": ")
        ]
    days, share, _ = curve(frame, asked)
    return float(np.r_[1.0, share][np.searchsorted(days, float(end), side="right")])


def _survival(frame: pd.DataFrame, asked: Any) -> Found:
    """At every day; `infer` names the ends of its cells, where the last day before counts."""
    if asked.group is not None:
        alone = replace(asked, group=None)
        groups = [
            (level, frame[frame[asked.group] == level])
            for level in _levels(frame[asked.group])
        ]
        return [
            (f"{asked.group} = {level}: {name}", *rest)
            for level, part in groups
            for name, *rest in _survival(part, alone)
        ]
    return [
        _about(f"beyond {day + 0.5:.4g}", share, error)
        for day, share, error in zip(*curve(frame, asked), strict=True)
    ]


_ANSWERS: dict[str, Callable[[pd.DataFrame, Any], Found]] = {
    "chi2": _chi2,
    "corr": _corr,
    "count": _count,
    "crosstab": _crosstab,
    "logit": _logit,
    "mean": _mean,
    "odds": _odds,
    "ols": _ols,
    "partial": _partial,
    "poisson": _poisson,
    "quantile": _quantile,
    "share": _share,
    "share-below": _share_below,
    "survival": _survival,
}
