"""Names of data sets: which can be recorded, and which are taken for one another.

One data set under two names would have two budgets. So a name that looks like a
registered one is refused, and a name that may be mistyped later is warned of. Ledgers
that hold such names already still load.

Whether two names look alike is decided by their skeletons (Unicode Technical Standard
39, section 4): each letter is replaced by the one that stands for all that are drawn
like it. Names of ASCII letters alone differ as they are typed, but for case and blanks:
`run1` and `runl` are two names.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from noisegate.errors import OptionError

_MAX_TEXT_LENGTH = 500

# Drawn as nothing: Default_Ignorable_Code_Point of Unicode's
# DerivedCoreProperties.txt, and a filler of Khitan.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U00016fe4]"
)
_BRAILLE_BLANK = "\u2800"  # a cell without a dot, which Unicode counts among symbols
_SMALL_CAPITAL_NAME = re.compile(r"LATIN LETTER SMALL CAPITAL ([A-Z])")

# Letters that common typefaces draw like Latin ones, though not the typefaces that
# Unicode's table rests on.
_CYRILLIC_SHAPES = str.maketrans(
    "аеорсухіјѕԁһԛԝӏкАВЕКМНОРСТУХІЈЅԌԚԜӀ", "aeopcyxijsdhqwlkABEKMHOPCTYXIJSGQWI"
)
_GREEK_SHAPES = str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοντυια", "ABEZHIKMNOPTYXovtuia")
_ARMENIAN_SHAPES = str.maketrans("օսոհցգ", "ounhgq")
_OTHER_LATIN_SHAPES = str.maketrans("ıɑɡ", "iag")
_LATIN_SHAPES = (
    _CYRILLIC_SHAPES | _GREEK_SHAPES | _ARMENIAN_SHAPES | _OTHER_LATIN_SHAPES
)

# First words of Unicode's names of letters, of alphabets with letters that look alike.
_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN")


def text_option(option: str, value: str) -> str:
    """Checks that a text can be recorded on one line.

    Args:
        option: Name of the option, for the message.
        value: The text.

    Returns:
        `value` as it is.

    Raises:
        OptionError: unless it is one line of printable text, not blank, of at most 500
            characters.
    """
    is_recordable = (
        isinstance(value, str)
        and value.strip() != ""
        and value.isprintable()
        and len(value) <= _MAX_TEXT_LENGTH
    )
    if not is_recordable:
        raise OptionError(
            f"{option}={value!r} cannot be recorded; give one line of text, at most {_MAX_TEXT_LENGTH} characters."
        )
    return value


def lookalike(name: str, registered: Iterable[str]) -> str | None:
    r"""Finds a registered name that a reader would take for another one.

    Two names look alike if they differ only by case, blanks, Unicode form (NFKC),
    invisible characters, or letters that are drawn alike.

    Args:
        name: The name to compare.
        registered: The other names; one that equals `name` does not count.

    Returns:
        The first such name, or None.

    Examples:
        >>> lookalike("clini\u0441", ["registry", "clinic"])
        'clinic'
        >>> lookalike("run1", ["runl"]) is None
        True
    """
    for other in registered:
        if other != name and _look_alike(name, other):
            return other
    return None


def _look_alike(name: str, other: str) -> bool:
    if _typed_form(name) == _typed_form(other):
        return True
    if name.isascii() and other.isascii():
        return False
    return not _skeletons(name).isdisjoint(_skeletons(other))


def _typed_form(name: str) -> str:
    """Reduces a name to what is typed, without case, extra blanks and the invisible."""
    return _with_single_blanks(_visible(name).casefold())


def _visible(name: str) -> str:
    shown = _INVISIBLE.sub("", unicodedata.normalize("NFKC", name))
    return shown.replace(_BRAILLE_BLANK, " ")


def _with_single_blanks(text: str) -> str:
    # Removing case may leave the composed form NFKC, which is therefore restored.
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _skeletons(name: str) -> set[str]:
    """Reduces a name to its skeletons; names that look alike have one in common.

    Returns:
        The skeletons of the name without case and of the name as it stands, and the
        name with letters replaced by Latin ones of their shape: three, since a capital
        may look Latin where its small letter does not.
    """
    shown = "".join(_without_small_capital(letter) for letter in _visible(name))
    without_case = _skeleton(shown.casefold()).casefold()
    as_it_stands = _skeleton(_skeleton(shown).casefold())
    latin = shown.translate(_LATIN_SHAPES).casefold().translate(_LATIN_SHAPES)
    return {_with_single_blanks(form) for form in (without_case, as_it_stands, latin)}


def _without_small_capital(letter: str) -> str:
    """Returns the capital that a small capital is drawn like: `"R"` for `"ʀ"`."""
    match = _SMALL_CAPITAL_NAME.fullmatch(unicodedata.name(letter, ""))
    if match is None:
        return letter
    return match[1]


def _skeleton(text: str) -> str:
    """Replaces each letter by its prototype (UTS 39, section 4)."""
    prototypes = _prototypes()
    letters = unicodedata.normalize("NFD", text)
    replaced = "".join(prototypes.get(letter, letter) for letter in letters)
    return unicodedata.normalize("NFD", replaced)


@cache
def _prototypes() -> dict[str, str]:
    """Reads Unicode's table of letters that look alike.

    Returns:
        For each letter the one, or the several, that stand for all that are drawn like
        it: `{"ⅿ": "rn", ...}`.
    """
    # The package confusable_homoglyphs lists by each letter those that are drawn like
    # it. Only its file is read: its code would take another one from the environment.
    table = files("confusable_homoglyphs") / "confusables.json"
    groups: dict[str, set[str]] = {}
    for text, entries in json.loads(table.read_text(encoding="utf-8")).items():
        group = {
            _INVISIBLE.sub("", form)
            for form in (text, *(entry["c"] for entry in entries))
        }
        group.discard("")
        group = group.union(*(groups.get(member, {member}) for member in group))
        for member in group:
            groups[member] = group
    # A letter that is drawn like several is compared with these, one by one.
    return {
        letter: min(group, key=lambda form: (-len(form), not form.isascii(), form))
        for letter, group in groups.items()
        if len(letter) == 1
    }


def mixed_scripts(name: str) -> tuple[str, ...]:
    """Finds a word with letters of several alphabets, which is rarely meant.

    Returns:
        The alphabets of the first such word, sorted: `("Cyrillic", "Latin")`. Empty if
        every word keeps to one alphabet.
    """
    words = re.split(r"[\W\d_]+", unicodedata.normalize("NFKC", name))
    for word in words:
        scripts = _scripts_of(word)
        if len(scripts) > 1:
            return tuple(sorted(scripts))
    return ()


def _scripts_of(word: str) -> set[str]:
    letter_names = [unicodedata.name(letter, "") for letter in word]
    return {
        script.title()
        for script in _SCRIPTS
        if any(letter_name.startswith(script) for letter_name in letter_names)
    }
