"""Names of data sets that people take for one another: one data set under two names would have two budgets.

Registering refuses a name that looks like one that is there. Ledgers that hold such names load all the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# Letters of other alphabets that are drawn like Latin ones in common typefaces, from Unicode's confusables.txt.
_CYRILLIC = ("аеорсухіјѕԁһԛԝӏкАВЕКМНОРСТУХІЈЅԌԚԜӀ", "aeopcyxijsdhqwlkABEKMHOPCTYXIJSGQWI")
_GREEK = ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοντυια", "ABEZHIKMNOPTYXovtuia")
_ARMENIAN = ("օսոհցգ", "ounhgq")
_LATIN = str.maketrans(*("".join(part) for part in zip(_CYRILLIC, _GREEK, _ARMENIAN, ("ıɑɡ", "iag"), strict=True)))
_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN")
# What is drawn as nothing: variation selectors, joiners, fillers.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u3164\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def lookalike(name: str, known: Iterable[str]) -> str | None:
    """Returns the name among `known` that `name` could be taken for, or None.

    Two names could be if they differ by case, blanks, form (Unicode's NFKC), invisible characters, or by letters of
    other alphabets that look like Latin ones.
    """
    wanted = _seen(name)
    return next((other for other in known if other != name and wanted & _seen(other)), None)


def _seen(name: str) -> set[str]:
    """Returns the forms of a name of which two that are alike share one: its letters without case, and their shapes."""
    shown = _INVISIBLE.sub("", unicodedata.normalize("NFKC", name))
    # Case comes second in the latter: a capital may look Latin where its small letter does not.
    forms = (shown.casefold(), shown.translate(_LATIN).casefold().translate(_LATIN))
    return {" ".join(unicodedata.normalize("NFKC", form).split()) for form in forms}


def mixed_scripts(name: str) -> tuple[str, ...]:
    """Returns the alphabets of a word of `name` that has letters of several; empty if there is none.

    Such a word is rarely meant: most of its letters have a twin in the other alphabet that nobody can tell apart.
    """
    for word in re.split(r"[\W\d_]+", unicodedata.normalize("NFKC", name)):
        found = {script for letter in word for script in _SCRIPTS if unicodedata.name(letter, "").startswith(script)}
        if len(found) > 1:
            return tuple(sorted(script.title() for script in found))
    return ()
