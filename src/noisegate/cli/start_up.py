"""What the program does not load: pandas, which pyarrow imports wherever it is installed.

With any of its arrays, pyarrow wants to know pandas' own types in case it meets one. The program reads files and meets
none, and the import takes longer than the fit of a small table. As a library noisegate leaves this alone: whoever gives
it a table of pandas has loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_ASKED = "importlib.", "_frozen_importlib", __name__


class _WithoutPandas:
    """Finds no pandas where pyarrow asks for it, which is compiled: the nearest frame is the module of ours that calls.

    Whatever else asks for pandas, as statsmodels does, gets it; and pyarrow then knows it too.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises a ModuleNotFoundError for pandas where a module of noisegate is nearest; finds nothing itself."""
        if name != "pandas":
            return None
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_ASKED):
            frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("noisegate."):
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return None


def leave_pandas_alone() -> None:
    """Lets pyarrow do without pandas from here on."""
    sys.meta_path.insert(0, _WithoutPandas())
