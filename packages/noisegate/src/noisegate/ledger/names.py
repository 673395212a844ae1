"""Names of data sets that people take for one another: one data set under two names would have two budgets.

Registering refuses a name that looks like one that is there. Ledgers that hold such names load all the same.

Whether two names look alike is decided by their skeletons (Unicode Technical Standard 39, section 4): each letter is
replaced by the one that stands for all that are drawn like it. Names of ASCII letters alone differ as they are typed,
but for case and blanks: `run1` and `runl` are two names.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN")

# Drawn as nothing: Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, and a filler of Khitan.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\U00016fe4]"
)
_BLANK = "\u2800"  # a cell of Braille without a dot, which Unicode counts among symbols
_SMALL_CAPITAL = re.compile(r"LATIN LETTER SMALL CAPITAL ([A-Z])")

# Letters that are drawn like Latin ones in common typefaces, though not in those that Unicode's table rests on.
_CYRILLIC = (
    "аеорсухіјѕԁһԛԝӏкАВЕКМНОРСТУХІЈЅԌԚԜӀ",
    "aeopcyxijsdhqwlkABEKMHOPCTYXIJSGQWI",
)
_GREEK = ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοντυια", "ABEZHIKMNOPTYXovtuia")
_ARMENIAN = ("օսոհցգ", "ounhgq")
_LATIN = str.maketrans(
    *(
        "".join(part)
        for part in zip(_CYRILLIC, _GREEK, _ARMENIAN, ("ıɑɡ", "iag"), strict=True)
    )
)


def lookalike(name: str, known: Iterable[str]) -> str | None:
    r"""Returns the name among `known` that differs from `name` only by case, blanks, form or letters that look alike.

    Examples:
        >>> lookalike("clini\u0441", ["registry", "clinic"])
        'clinic'
        >>> lookalike("run1", ["runl"]) is None
        True
    """
    for other in known:
        if other == name:
            continue
        if _typed_form(name) == _typed_form(other):
            return other
        is_ascii = name.isascii() and other.isascii()
        if not is_ascii and _shapes(name) & _shapes(other):
            return other
    return None


def mixed_scripts(name: str) -> tuple[str, ...]:
    """Returns the alphabets of a word of `name` that has letters of several, which is rarely meant; else nothing."""
    for word in re.split(r"[\W\d_]+", unicodedata.normalize("NFKC", name)):
        found = {
            script
            for letter in word
            for script in _SCRIPTS
            if unicodedata.name(letter, "").startswith(script)
        }
        if len(found) > 1:
            return tuple(sorted(script.title() for script in found))
    return ()


def _visible(name: str) -> str:
    """Returns a name without what is drawn as nothing."""
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", name)).replace(_BLANK, " ")


def _typed_form(name: str) -> str:
    """Returns what a name says, whatever its case, blanks and compositions."""
    return " ".join(unicodedata.normalize("NFKC", _visible(name).casefold()).split())


def _shapes(name: str) -> set[str]:
    """Returns the forms of a name of which two that look alike share one."""
    shown = "".join(map(_capital, _visible(name)))
    forms = (
        _skeleton(shown.casefold()).casefold(),
        # A capital may look Latin where its small letter does not.
        _skeleton(_skeleton(shown).casefold()),
        shown.translate(_LATIN).casefold().translate(_LATIN),
    )
    return {" ".join(unicodedata.normalize("NFKC", form).split()) for form in forms}


def _capital(letter: str) -> str:
    """Returns the capital letter that a small capital is drawn like, and any other letter as it is."""
    found = _SMALL_CAPITAL.fullmatch(unicodedata.name(letter, ""))
    return letter if found is None else found[1]


def _skeleton(text: str) -> str:
    """Returns the skeleton of a text by UTS 39: two texts that are drawn alike have the same."""
    prototypes = _prototypes()
    letters = unicodedata.normalize("NFD", text)
    return unicodedata.normalize(
        "NFD", "".join(prototypes.get(letter, letter) for letter in letters)
    )


@cache
def _prototypes() -> dict[str, str]:
    """Returns for each letter the one, or the several, that stand for all that are drawn like it."""
    # The package lists by each letter those that are drawn like it, by Unicode's confusables.txt. Its file is read
    # here, since the package would take another one from the environment.
    text = (files("confusable_homoglyphs") / "confusables.json").read_text(
        encoding="utf-8"
    )
    alike: dict[str, set[str]] = {}
    for key, entries in json.loads(text).items():
        group = {
            _INVISIBLE.sub("", one) for one in (key, *(entry["c"] for entry in entries))
        } - {""}
        group = group.union(*(alike.get(member, {member}) for member in group))
        for member in group:
            alike[member] = group
    prototypes = {}
    for member, group in alike.items():
        if len(member) == 1:
            # What is drawn like several letters is compared with these, one by one.
            prototypes[member] = min(
                group, key=lambda one: (-len(one), not one.isascii(), one)
            )
    return prototypes
