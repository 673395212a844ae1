"""What the package says today about every case: plans and settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .cases import BUDGETS, FITS, OTHER_SETTINGS, SCHEMAS, asked, options
from .names import FILES, METHOD_NAMES, Schema, program, settings_for

FIRST = next(iter(BUDGETS))


def plan_cases() -> Iterator[str]:
    """Yields "method | schema | budget | case" of every plan."""
    for method in ("auto", *METHOD_NAMES):
        for schema in SCHEMAS:
            # Tables of 64 columns and more are not for it, and finding that out takes long.
            if method != "aim" or schema in ("mixed", "plain"):
                budgets = BUDGETS if schema in ("mixed", "grey") else (FIRST,)
                yield from (
                    f"{method} | {schema} | {budget} | default" for budget in budgets
                )
    for case, (method, schema, _) in FITS.items():
        yield f"{method} | {schema} | {FIRST} | {case}"


def plan(case: str) -> Any:
    """Returns what `noisegate plan --json` says, or its exit code where it refuses."""
    method, schema, budget, fit = case.split(" | ")
    settings = options(asked(method, schema, fit))
    code, out, err = program(
        "plan",
        "--schema",
        f"{schema}.toml",
        "--method",
        method,
        *BUDGETS[budget],
        *settings,
        "--json",
    )
    assert code in (0, 2), out + err
    return {"exit_code": code} if code else json.loads(out)


def settings_cases() -> Iterator[str]:
    """Yields "method | schema | case" of all settings."""
    for method in METHOD_NAMES:
        yield from (f"{method} | {schema} | default" for schema in SCHEMAS)
    for case, (method, schema, _) in {**FITS, **OTHER_SETTINGS}.items():
        yield f"{method} | {schema} | {case}"


def settings(case: str) -> Any:
    """Returns a method with the settings that a case asks for, or None where it refuses them."""
    from noisegate import UserError

    method, schema, fit = case.split(" | ")
    try:
        return settings_for(
            method,
            Schema.from_toml(FILES / f"{schema}.toml"),
            asked(method, schema, fit),
        )
    except UserError:
        return None
