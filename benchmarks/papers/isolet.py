"""Isolet (UCI): the training file (speakers 1 to 120), split 70/30, vowels against consonants.

The papers' 4,366 records are 70 % of its 6,238. A speaker says every letter twice, so the guarantee of one record is
not that of one person.
"""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase

from noisegate import Schema
from noisegate.schema import Categorical, Continuous
from papers.published import Loaded, Published
from papers.reading import read_mapped, read_plain

ISOLET = Published(
    name="isolet",
    page="https://archive.ics.uci.edu/dataset/54/isolet",
    files=("isolet1+2+3+4.data", "isolet1+2+3+4.data.gz"),
    train_records=4_367,
    train_share=0.7,
)
FEATURES = 617
# isolet.names: the last field is the letter, 1 for A to 26 for Z.
SOUNDS = {
    str(number): "vowel" if letter in "AEIOU" else "consonant" for number, letter in enumerate(ascii_uppercase, start=1)
}


def schema() -> Schema:
    """Returns what isolet.names tells: 617 numbers "scaled into the range -1.0 to 1.0", and the letter."""
    features = [Continuous(name=f"f{number}", lower=-1.0, upper=1.0) for number in range(1, FEATURES + 1)]
    return Schema((*features, Categorical(name="sound", levels=("consonant", "vowel"))), label="sound")


def load(folder: Path, *, seed: int) -> Loaded:
    """Returns Isolet; 617 numeric columns and the sound, vowel the positive class.

    Raises:
        DataError: if the file is missing or broken.
    """
    path = ISOLET.find(folder, *ISOLET.files)
    records = read_plain(path, schema().names)
    sounds = read_mapped(records["sound"], SOUNDS, f"{path}, letter")
    return ISOLET.split(records.set_column(FEATURES, "sound", sounds), schema(), seed=seed)
