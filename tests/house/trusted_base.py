"""The trusted base: the rooms that see private records, draw noise, or say what it costs.

Whoever wants to trust a release must read these; everything else sees only noisy sums.
`docs/trusted-base.md` says in which order, and what each file is trusted for.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_TRUSTED = (
    "noisegate/src/noisegate/schema",
    "noisegate/src/noisegate/sources",
    "noisegate/src/noisegate/queries",
    "noisegate/src/noisegate/privacy",
    "noisegate/src/noisegate/ledger",
    "noisegate/src/noisegate/gate",
    "noisegate-images/src/noisegate_images/sources",
    "noisegate-images/src/noisegate_images/queries",
    "noisegate-papers/src/noisegate_papers/queries",
    # What these rooms import: no trust ends at the door of a room.
    "noisegate/src/noisegate/_version.py",
    "noisegate/src/noisegate/atomic.py",
    "noisegate/src/noisegate/cards.py",
    "noisegate/src/noisegate/containers.py",
    "noisegate/src/noisegate/devices.py",
    "noisegate/src/noisegate/errors.py",
    "noisegate/src/noisegate/progress.py",
    "noisegate/src/noisegate/records.py",
    "noisegate/src/noisegate/registry.py",
    "noisegate/src/noisegate/seeds.py",
    "noisegate/src/noisegate/settings.py",
    "noisegate-images/src/noisegate_images/networks/encoder.py",
    "noisegate-images/src/noisegate_images/networks/named.py",
    "noisegate-images/src/noisegate_images/networks/strokes.py",
)


def trusted_files() -> list[Path]:
    """Returns the Python files of the trusted base, sorted."""
    files: list[Path] = []
    for name in _TRUSTED:
        folder = ROOT / "packages" / name
        if not folder.exists():
            raise FileNotFoundError(
                f"{folder} was moved: tests/house/trusted_base.py names it"
            )
        files += sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    return files
