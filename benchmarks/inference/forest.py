"""Draws intervals of one release beside those of real records and of synthetic rows: the picture of docs/inference.md.

python benchmarks/inference/forest.py --out docs/inference.png [--population scm] [--records 10000] [--epsilon 1]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choice, needed, read_options
from matplotlib.figure import Figure
from plain import answers as plain_answers
from populations import POPULATIONS

import noisegate
from noisegate import Pairwise
from noisegate.answers.questions.question import parse_question

QUESTIONS = (
    "mean(w) by g",
    "corr(x1, w)",
    "corr(x1, u)",
    "partial(x1, w | c)",
    "w ~ x1 + x2 + u + g + c",
    "logit(y) ~ x1 + x2 + u + g",
)
LEFT_OUT = ("intercept", "g = False", "g = True")
COLOURS = {
    "real records": "#444444",
    "noisegate infer": "#00796b",
    "synthetic rows, as if real": "#d84315",
}


def main() -> None:
    """Fits once, asks three times, and draws."""
    options = read_options(
        __doc__,
        out=needed(Path),
        population=choice(list(POPULATIONS), "scm"),
        records=10_000,
        epsilon=1.0,
    )
    population = POPULATIONS[options.population]
    real = population.draw(options.records, 1)
    method = Pairwise(moments_share=0.43)
    model = noisegate.synthesize(
        real, schema=population.schema, epsilon=options.epsilon, method=method
    )
    rows = model.sample(options.records, seed=0)
    lines: list[tuple[str, float, list[Any]]] = []
    for question in QUESTIONS:
        asked = parse_question(question)
        truth = {
            name: value
            for name, value, *_ in plain_answers(population.everybody, asked)
        }
        plain = [
            {name: rest for name, *rest in plain_answers(each, asked)}
            for each in (real, rows)
        ]
        for one in model.infer(question):
            if one.name not in LEFT_OUT or (one.name == "g = True" and "~" in question):
                told = (
                    question
                    if one.name == question
                    else f"{question.split(' ~')[0]}: {one.name}"
                )
                ends = [
                    plain[0][one.name][:3],
                    [one.value, one.low, one.high],
                    plain[1][one.name][:3],
                ]
                lines.append(
                    (told.replace("difference of ", ""), truth[one.name], ends)
                )
    figure = Figure(
        figsize=(8.5, 0.36 * len(lines) + 1.2), facecolor="white", layout="constrained"
    )
    axes = figure.add_subplot()
    for row, (_, true, found) in enumerate(lines):
        axes.plot([true, true], [row - 0.4, row + 0.4], color="black", linewidth=1)
        for shift, (colour, (value, low, high)) in zip(
            (-0.22, 0, 0.22), zip(COLOURS.values(), found, strict=True), strict=True
        ):
            if value is not None:
                axes.plot([low, high], [row + shift] * 2, color=colour, linewidth=2)
                axes.plot(value, row + shift, "o", color=colour, markersize=3.5)
    for name, colour in COLOURS.items():
        axes.plot([], [], color=colour, linewidth=2, label=name)
    axes.plot([], [], color="black", linewidth=1, label="truth")
    axes.set_yticks(range(len(lines)), [told for told, _, _ in lines])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_title(
        f"95 % intervals, {options.records:,} records, ε = {options.epsilon:g}, one release"
    )
    axes.legend(loc="upper right", fontsize=8)
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
