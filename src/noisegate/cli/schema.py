"""`noisegate schema`: describe the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisegate.cli.arguments import Json
from noisegate.cli.console import OUT, print_json, say, table, warn
from noisegate.cli.writing import new_file

app = typer.Typer(
    no_args_is_help=True, help="Describe the columns: public knowledge only.", rich_markup_mode="markdown"
)


@app.command("init")
def init(
    public: Annotated[
        Path, typer.Argument(help="CSV or Parquet file that is PUBLIC: its bounds and levels are copied.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Schema file to write.")],
    label: Annotated[str | None, typer.Option("--label", help="Column to be predicted from the others.")] = None,
) -> None:
    """Draft a schema from a file that you declare public. Never use it on private records: bounds and levels leak.

    Example: `noisegate schema init codebook_sample.csv -o schema.toml --label diagnosis`
    """
    from noisegate.data.draft import draft_schema

    with new_file(out) as path:
        schema = draft_schema(public, label=label)
        path.write_bytes(schema.dumps().encode())
    warn(f"this schema copies bounds and levels from {public}; it is safe only because you declare that file public.")
    say(f"Wrote {out}: {len(schema.columns)} columns. Read it, widen what is too narrow, and keep it with the data.")


@app.command("check")
def check(
    path: Annotated[Path, typer.Argument(metavar="SCHEMA", help="Schema file, TOML.")], as_json: Json = False
) -> None:
    """Check a schema and show what it says."""
    from noisegate.schema import Boolean, Categorical, Ordinal, Schema

    schema = Schema.from_toml(path)
    if as_json:
        print_json({"ok": True, "digest": schema.digest(), "schema": schema.to_json()})
        return
    rows = []
    for column in schema.columns:
        match column:
            case Boolean() | Ordinal() | Categorical():
                span = f"{column.size - column.missing} levels"
            case _:
                span = f"{column.lower} to {column.upper}"
        role = "label" if column.name == schema.label else ""
        rows.append([column.name, column.kind, span, "allowed" if column.missing else "no", role])
    OUT.print(table(str(path), dict.fromkeys(["column", "kind", "range", "missing", "role"], "left"), rows))
    OUT.print("The schema is good.")
