"""The trusted base: the files that see private records, draw noise, or say what it costs.

Whoever wants to trust a release must read these; everything else sees only noisy sums. Until the rooms are moved to
their side of the border (`.importlinter`), the list names files where a room holds both.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_TRUSTED = (
    "noisegate/src/noisegate/schema",
    "noisegate/src/noisegate/data",
    "noisegate/src/noisegate/features",
    "noisegate/src/noisegate/gate",
    "noisegate/src/noisegate/privacy",
    "noisegate/src/noisegate/ledger",
    "noisegate/src/noisegate/engines",
    "noisegate/src/noisegate/streams",
    "noisegate/src/noisegate/silos",
    "noisegate/src/noisegate/linked/source.py",
    "noisegate/src/noisegate/linked/families.py",
    "noisegate/src/noisegate/linked/schema.py",
    "noisegate/src/noisegate/linked/table_schema.py",
    "noisegate/src/noisegate/discovery/exact_counts.py",
    "noisegate/src/noisegate/discovery/partial.py",
    "noisegate/src/noisegate/discovery/raw.py",
    "noisegate/src/noisegate/discovery/schema_gate.py",
    "noisegate/src/noisegate/discovery/split.py",
    "noisegate-images/src/noisegate_images/data",
    "noisegate-images/src/noisegate_images/features",
    "noisegate-papers/src/noisegate_papers/features",
)


def trusted_files() -> list[Path]:
    """Returns the Python files of the trusted base, sorted."""
    files: list[Path] = []
    for name in _TRUSTED:
        place = ROOT / "packages" / name
        if not place.exists():
            raise FileNotFoundError(
                f"{place} was moved: tests/house/trusted_base.py names it"
            )
        files += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return files
