"""Counts the code itself: tokens, how dense its lines are, how much of it is documentation.

Tokens are those of `tokenize` without comments, docstrings and layout. Splitting a statement over two lines adds none,
and squeezing two statements into one line saves none: what counts is how much there is to understand.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


@dataclass(frozen=True, kw_only=True)
class CodeSize:
    """The size of some files.

    Attributes:
        lines: All lines.
        code_lines: Lines with at least one token of code.
        documentation_lines: Lines of docstrings and of comments that stand alone.
        tokens: Tokens of code.
        wide_lines: Lines of more than 88 characters.
    """

    lines: int = 0
    code_lines: int = 0
    documentation_lines: int = 0
    tokens: int = 0
    wide_lines: int = 0

    def __add__(self, other: CodeSize) -> CodeSize:
        """Adds the sizes of two sets of files."""
        return CodeSize(
            lines=self.lines + other.lines,
            code_lines=self.code_lines + other.code_lines,
            documentation_lines=self.documentation_lines + other.documentation_lines,
            tokens=self.tokens + other.tokens,
            wide_lines=self.wide_lines + other.wide_lines,
        )

    @property
    def tokens_per_code_line(self) -> float:
        """How dense the code is; the libraries that we measure ourselves against have 6 to 8."""
        return self.tokens / max(self.code_lines, 1)

    @property
    def documentation_share(self) -> float:
        """Part of all lines that is documentation, from 0 to 1."""
        return self.documentation_lines / max(self.lines, 1)


WIDTH = 88


def size_of(paths: Iterable[Path]) -> CodeSize:
    """Measures Python files together."""
    return sum((_size_of_file(path) for path in paths), start=CodeSize())


def _size_of_file(path: Path) -> CodeSize:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    docstring_lines = set(_docstring_lines(ast.parse(text)))
    token_count = 0
    code_lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first_line = token.start[0]
        last_line = token.end[0]
        if token.type in _LAYOUT or first_line in docstring_lines:
            continue
        token_count += 1
        code_lines.update(range(first_line, last_line + 1))
    comment_count = sum(line.lstrip().startswith("#") for line in lines)
    return CodeSize(
        lines=len(lines),
        code_lines=len(code_lines),
        documentation_lines=len(docstring_lines) + comment_count,
        tokens=token_count,
        wide_lines=sum(len(line) > WIDTH for line in lines),
    )


def _docstring_lines(tree: ast.AST) -> Iterator[int]:
    """Yields the lines of docstrings, and of the strings that stand below an attribute to describe it."""
    for node in ast.walk(tree):
        is_string = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_string and isinstance(node.value.value, str):
            yield from range(node.lineno, node.end_lineno + 1)
