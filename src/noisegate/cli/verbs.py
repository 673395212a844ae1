"""Groups of verbs whose options and arguments may not be blank."""

from __future__ import annotations

from typing import Any

import typer

from noisegate.errors import OptionError

# Images without labels have --label ''.
_MAY_BE_EMPTY = {"label"}


class Verbs(typer.core.TyperGroup):
    """A group whose verbs get no blank value, which as a path would be the current folder."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Returns the verb that is asked for, after a look at what follows it."""
        name, command, following = super().resolve_command(ctx, args)
        # While the shell completes a line, an option may still lack its value.
        if command is not None and not isinstance(command, typer.core.TyperGroup) and not ctx.resilient_parsing:
            _refuse_blank(command, command.context_class(command, info_name=name, parent=ctx), following)
        return name, command, following


def _refuse_blank(command: Any, ctx: Any, following: list[str]) -> None:
    given, _, _ = command.make_parser(ctx).parse_args(list(following))
    for parameter in command.params:
        value = given.get(parameter.name)
        option = parameter.param_type_name == "option"
        shown = parameter.opts[0] if option else parameter.metavar or parameter.name.upper()
        texts = value if isinstance(value, list | tuple) else [value]
        blank = [text for text in texts if isinstance(text, str) and not text.strip()]
        if blank and parameter.name not in _MAY_BE_EMPTY:
            raise OptionError(f"{shown} {blank[0]!r} is empty; give a value, or leave it out.")
