"""Tables of figures: of distances, scores and groups, for a terminal, a notebook or a page.

Headings that begin with ">" are of columns of numbers. An empty row is a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from noisegate.cards import Sheet
from noisegate_evaluate.metrics.groups import Group, Groups
from noisegate_evaluate.metrics.links import LinkDistances
from noisegate_evaluate.metrics.marginals import MarginalReport
from noisegate_evaluate.tables import RegressionReport
from noisegate_evaluate.utility.runner import UtilityReport

if TYPE_CHECKING:
    from rich.table import Table

_MEAN_OF_MODELS = "mean of the models"
_OVER_STARTS = "± over its starts"
# Styles of rows in a terminal, by their second cell.
_STYLES = {_MEAN_OF_MODELS: "bold", _OVER_STARTS: "dim"}


def marginal_sheet(
    marginals: MarginalReport, floor: MarginalReport | None, compared_with: str
) -> Sheet:
    """Returns the distances of marginals of each order.

    Args:
        marginals: Distances of the synthetic table.
        floor: Those between two real tables; None without.
        compared_with: Which real table, "train" or "test".
    """
    headings = ["order", ">marginals", f">synthetic vs {compared_with}"]
    if floor is not None:
        headings.append(">train vs test")
    headings.append("largest")
    rows = []
    for entry in marginals.orders:
        count = str(entry.used)
        if entry.used != entry.total:
            count = f"{entry.used} of {entry.total}"
        row = [f"{entry.order}-way", count, f"{entry.mean:.4f}"]
        if floor is not None:
            row.append(f"{floor.order(entry.order).mean:.4f}")
        row.append(f"{entry.largest:.4f}  {' × '.join(entry.largest_columns)}")
        rows.append(row)
    title = "Marginals: mean total variation distance (0 = the same)"
    return Sheet(title=title, headings=headings, rows=rows)


def comparison_sheet(
    title: str,
    figures: Mapping[str, str],
    floor: Mapping[str, str] | None,
    *,
    compared_with: str,
) -> Sheet:
    """Returns figures of the synthetic records, beside those of two sets of real ones.

    Args:
        title: Title of the table.
        figures: The figures as they are printed, by name.
        floor: Those of two sets of real records, by name; None without.
        compared_with: Which real records, "train" or "test".
    """
    headings = ["figure", f">synthetic vs {compared_with}"]
    rows = [[name, text] for name, text in figures.items()]
    if floor is not None:
        headings.append(">train vs test")
        for row in rows:
            row.append(floor.get(row[0], ""))
    return Sheet(title=title, headings=headings, rows=rows)


def link_sheet(
    name: str, link: LinkDistances, floor: LinkDistances | None, compared_with: str
) -> Sheet:
    """Returns the figures of a link, with the columns in which each is largest.

    Args:
        name: Name of the children's table.
        link: Its figures.
        floor: Those between two sets of real tables; None without.
        compared_with: Which real tables, "train" or "test".
    """
    lines = dict(link.lines())
    floor_lines = None if floor is None else dict(floor.lines())
    sheet = comparison_sheet(
        f"{name} and their parents (0 = the same)",
        {figure: text for figure, (text, _) in lines.items()},
        None
        if floor_lines is None
        else {figure: text for figure, (text, _) in floor_lines.items()},
        compared_with=compared_with,
    )
    rows = [
        [*row, largest]
        for row, (_, largest) in zip(sheet.rows, lines.values(), strict=True)
    ]
    return replace(sheet, headings=[*sheet.headings, "largest"], rows=rows)


def regression_sheet(
    scores: RegressionReport, ceiling: RegressionReport | None
) -> Sheet:
    """Returns the scores of regressors, trained on synthetic and on real records."""
    return _score_sheet(
        f"Regressors that predict {scores.label!r} on the test table",
        {"R²": ("r2", 3), "absolute error / range": ("absolute_error", 4)},
        scores,
        ceiling,
    )


def score_sheet(scores: UtilityReport, ceiling: UtilityReport | None) -> Sheet:
    """Returns the scores of classifiers of a table, with their means and spreads."""
    title = (
        f"Models that predict {scores.label!r} on the test table; {scores.averaging}; "
        f"list {scores.suite.name!r}, version {scores.suite.version}"
    )
    figures = {
        "ROC-AUC": ("roc_auc", 3),
        "avg. prec.": ("average_precision", 3),
        "F1": ("f1", 3),
        "accuracy": ("accuracy", 3),
    }
    return _score_sheet(title, figures, scores, ceiling, has_spread=True)


def image_score_sheet(scores: UtilityReport, ceiling: UtilityReport | None) -> Sheet:
    """Returns the scores of classifiers of images."""
    return _score_sheet(
        "Classifiers tested on the held-out images; networks chosen by validation "
        "images of their own training set",
        {"accuracy": ("accuracy", 4), "F1": ("f1", 4), "ROC-AUC": ("roc_auc", 4)},
        scores,
        ceiling,
    )


def _score_sheet(
    title: str,
    figures: Mapping[str, tuple[str, int]],
    scores: Any,
    ceiling: Any,
    *,
    has_spread: bool = False,
) -> Sheet:
    """Returns the scores of models trained on synthetic and on real records.

    Args:
        title: Title of the table.
        figures: For each column, by its heading, the attribute of the scores and the
            number of digits.
        scores: The report of models trained on synthetic records.
        ceiling: The report of models trained on real records; None without.
        has_spread: Whether means and spreads are shown too.
    """
    rows: list[list[str]] = []

    def add_row(trained_on: str, model: str, model_scores: Any) -> None:
        numbers = [
            f"{getattr(model_scores, attribute):.{digits}f}"
            for attribute, digits in figures.values()
        ]
        rows.append([trained_on, model, *numbers])

    for trained_on, report in _reports_by_source(scores, ceiling).items():
        for model, model_scores in report.models.items():
            add_row(trained_on, model, model_scores)
            if has_spread and model in report.spread:
                add_row(trained_on, _OVER_STARTS, report.spread[model])
        if has_spread and report.deviation is not None:
            add_row(trained_on, _MEAN_OF_MODELS, report.mean)
            add_row(trained_on, "± over the models", report.deviation)
        rows.append([])
    headings = ("trained on", "model", *(f">{heading}" for heading in figures))
    return Sheet(title=title, headings=headings, rows=rows)


def printed_score_sheet(scores: UtilityReport, ceiling: UtilityReport | None) -> Sheet:
    """Returns mean scores as the papers DP-MERF and DP-HP print them."""
    rows = []
    for trained_on, report in _reports_by_source(scores, ceiling).items():
        mean = report.printed_mean
        if mean is None:
            continue
        areas = [
            "" if area is None else f"{area:.3f}"
            for area in (mean.roc_auc, mean.average_precision)
        ]
        rows.append([trained_on, _MEAN_OF_MODELS, *areas, f"{mean.weighted_f1:.3f}"])
    return Sheet(
        title="As DP-MERF and DP-HP print them: areas under curves of hard "
        "predictions, F1 weighted by class",
        headings=("trained on", "model", ">ROC-AUC", ">avg. prec.", ">weighted F1"),
        rows=rows,
    )


def _reports_by_source(scores: Any, ceiling: Any) -> dict[str, Any]:
    """Returns reports of models by what these were trained on, those that there are."""
    reports = {"synthetic": scores}
    if ceiling is not None:
        reports["real train (ceiling)"] = ceiling
    return reports


def group_sheet(groups: Groups) -> Sheet:
    """Returns the figures of each group of a column."""
    headings = [
        groups.column,
        ">real records",
        ">share of real",
        ">of synthetic",
        ">error of pairs",
        ">associations kept",
        "mean farthest off",
        "quantile farthest off",
    ]
    if groups.score is not None:
        headings += [f">{groups.score}", ">of real train"]
    rows = []
    for group in groups.groups:
        row = [
            group.level,
            f"{group.records:,}",
            f"{group.real_share:.1%}",
            f"{group.share:.1%}",
            *_error_cells(group),
        ]
        if groups.score is not None:
            row += _score_cells(group)
        rows.append(row)
    return Sheet(
        title=f"By {groups.column}; errors are beyond sampling error",
        headings=headings,
        rows=rows,
    )


def _error_cells(group: Group) -> list[str]:
    """Returns the four cells with the errors of a group; empty where not measured."""
    if group.is_too_small:
        return ["too few records", "", "", ""]
    pairs = associations = mean = quantile = ""
    if group.pairs is not None:
        pairs = f"{group.pairs:.4f}"
    if group.associations_kept is not None:
        associations = f"{group.associations_kept:.0%}"
    if group.mean is not None:
        mean = f"{group.mean.error:.2f} SD ({group.mean.column})"
    if group.quantile is not None:
        level = group.quantile.what.split()[0]
        quantile = f"{group.quantile.error:.3f} ({group.quantile.column}, {level})"
    return [pairs, associations, mean, quantile]


def _score_cells(group: Group) -> list[str]:
    """Returns the two cells with the scores of a group; empty where none was scored."""
    if group.score is None:
        return ["", ""]
    return [f"{group.score.synthetic:.3f}", f"{group.score.real:.3f}"]


def worst_group_sheet(groups: Groups) -> Sheet:
    """Returns the worst group by each figure, beside the mean over groups."""
    titles = {
        "pairs": "total variation distance of a pair of columns",
        "associations_lost": "part lost of strong associations",
        "mean": "mean farthest off, in standard deviations",
        "quantile": "quantile farthest off, in rank",
        "score_lost": f"{groups.score} lost by learning from synthetic records",
    }
    rows = [
        (
            titles[figure],
            worst.group.level if worst.error > 0 else "none",
            f"{worst.error:.3f}",
            f"{worst.mean_error:.3f}",
        )
        for figure, worst in groups.worst.items()
    ]
    return Sheet(
        title=f"By {groups.column}: the worst group beside the mean over groups",
        headings=("error", "worst group", ">its error", ">mean over groups"),
        rows=rows,
    )


def rich_table(sheet: Sheet) -> Table:
    """Returns a sheet as a table of Rich, for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(sheet.title, style="italic"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        # Six columns fit into 80 letters.
        padding=(0, 1, 0, 0),
    )
    for heading in sheet.headings:
        is_number = heading.startswith(">")
        table.add_column(
            heading.removeprefix(">"),
            justify="right" if is_number else "left",
            no_wrap=heading in ("trained on", "model"),
        )
    for row in sheet.rows:
        if row:
            table.add_row(*map(Text, row), style=_STYLES.get(row[1]))
        else:
            table.add_section()
    return table
