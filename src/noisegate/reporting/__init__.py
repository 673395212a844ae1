"""Pictures of what came out, for people to look at."""

from __future__ import annotations

from noisegate.reporting.pictures import comparison_picture

__all__ = ["comparison_picture"]
