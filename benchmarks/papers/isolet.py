"""Isolet (UCI): the training file (speakers 1 to 120), split 70/30, vowels against consonants; or the test file.

The papers' 4,366 records are 70 % of its 6,238. The test file (speakers 121 to 150, 1,559 records) is a set of its own
here, split in the same way, for where only that is at hand. A speaker says every letter twice, so the guarantee of one
record is not that of one person.
"""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase

from noisegate import Schema
from noisegate.schema import Categorical, Continuous
from papers.published import SETS, Loaded, Published
from papers.reading import read_headed, read_mapped, read_plain

ISOLET = SETS["isolet"]
ISOLET_TEST = SETS["isolet-test"]
FEATURES = 617
# isolet.names: the last field is the letter, 1 for A to 26 for Z; copies write 1.0.
SOUNDS = {
    text: "vowel" if letter in "AEIOU" else "consonant"
    for number, letter in enumerate(ascii_uppercase, start=1)
    for text in (f"{number}", f"{number}.0")
}


def schema() -> Schema:
    """Returns what isolet.names tells: 617 numbers "scaled into the range -1.0 to 1.0", and the letter."""
    features = [
        Continuous(name=f"f{number}", lower=-1.0, upper=1.0)
        for number in range(1, FEATURES + 1)
    ]
    return Schema(
        (*features, Categorical(name="sound", levels=("consonant", "vowel"))),
        label="sound",
    )


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Isolet; 617 numeric columns and the sound, vowel the positive class.

    Raises:
        DataError: if the file is missing or broken.
    """
    return _loaded(ISOLET, folder, seed)


def load_test(folder: Path, *, seed: int) -> Loaded:
    """Returns the published test file, split into records to train and to test on, as `load` does with the other."""
    return _loaded(ISOLET_TEST, folder, seed)


def _loaded(which: Published, folder: Path, seed: int) -> Loaded:
    path, names = which.find(folder, *which.files), schema().names
    if ".csv" in path.name:
        records = read_headed(path, [*names[:-1], "class"]).rename_columns(list(names))
    else:
        records = read_plain(path, names)
    sounds = read_mapped(records["sound"], SOUNDS, f"{path}, letter")
    return which.split(
        records.set_column(FEATURES, "sound", sounds), schema(), seed=seed
    )
