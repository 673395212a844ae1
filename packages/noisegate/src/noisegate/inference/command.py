"""`noisegate infer`: answers with error bars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisegate.cli.console import OUT, print_json, say, table
from noisegate.cli.options import Json
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.inference.answers import Estimate


def infer_command(
    model: Annotated[Path, typer.Argument(help="Folder of `fit`.")],
    questions: Annotated[
        list[str] | None,
        typer.Argument(
            help="'mean(wage) by sex', 'quantile(wage, 0.9)', 'share(job = nurse)', 'corr(age, wage)', "
            "'wage ~ age + sex', 'logit(ill) ~ age', 'chi2(job, ill)' and others; a wrong one lists them all."
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="A text file with a question in each line.")] = None,
    level: Annotated[float, typer.Option(help="Of intervals.")] = 0.95,
    finite: Annotated[
        bool,
        typer.Option("--finite", help="About the records themselves, not the population that they are a sample of."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer questions with intervals that hold, from what was released. Costs no privacy; reads no private data.

    P-values and standard errors of synthetic rows are wrong, however many rows there are. These account for the noise
    of the release, for the sampling of the records and for the width of cells. `fit --for-inference` narrows them.

    Example: `noisegate infer model "mean(wage) by sex" "wage ~ age + sex"`
    """
    from noisegate.inference import infer
    from noisegate.models.synthesizer import Synthesizer

    asked = list(questions or [])
    if file is not None:
        try:
            asked += [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"--file {file} cannot be read: {error}.") from None
    answers = infer(Synthesizer.load(model), *asked, level=level, finite=finite)
    if as_json:
        print_json({"level": level, "finite": finite, "answers": [answer.to_json() for answer in answers]})
        return
    for question in dict.fromkeys(answer.question for answer in answers):
        _show([answer for answer in answers if answer.question == question], question, level)


def _show(answers: list[Estimate], question: str, level: float) -> None:
    shown = [[one.name, *_numbers(one)] for one in answers if one.refused is None]
    tested = any(one.p is not None for one in answers)
    heads = ["chi-squared", "p"] if tested else ["estimate", f"{level:.0%} from", "to", "by noise", "by sampling"]
    if shown:
        OUT.print(table(question, {"": "left", **dict.fromkeys(heads, "right")}, shown))
    for one in answers:
        if one.refused is not None:
            OUT.print(f"[yellow]{one.name}[/yellow]: {one.refused}.", highlight=False)
    for note in dict.fromkeys(note for one in answers for note in one.notes):
        say(f"{note}.")


def _numbers(answer: Estimate) -> list[str]:
    if answer.p is not None:
        return [f"{answer.value:.4g}", f"{answer.p:.2g}"]
    errors = [f"{answer.noise:.2g}", f"{answer.sampling:.2g}"] if answer.noise or answer.sampling else ["", ""]
    return [f"{answer.value:.4g}", f"{answer.low:.4g}", f"{answer.high:.4g}", *errors]
