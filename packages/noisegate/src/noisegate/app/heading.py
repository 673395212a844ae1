"""What the owner of a model says of it: its title, who answers for it, and its purpose.

The three are public texts of one line each. A run puts them into its certificate, so
that whoever draws a page of the model later has them too::

    fit --title ...  ──►  Request  ──►  Gate.heading  ──►  certificate.public["heading"]
                                                             │ heading_of
                                                             ▼
                                                   pages, `noisegate export`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisegate.errors import OptionError
from noisegate.ledger.dataset_names import text_option
from noisegate.privacy.certificate import Certificate

HEADING_NAMES = ("title", "owner", "purpose")
"""The texts, by their names as options."""


def check_heading(texts: Mapping[str, Any]) -> dict[str, str]:
    """Returns the texts of a heading that are given, by name.

    Args:
        texts: By the names in `HEADING_NAMES`, among others; None for one that is not
            given.

    Raises:
        OptionError: if one is not a line of printable text of at most 500 characters.

    Examples:
        >>> check_heading({"title": "Survey", "owner": None, "purpose": "Teaching"})
        {'title': 'Survey', 'purpose': 'Teaching'}
    """
    return {
        name: text_option(name, texts[name])
        for name in HEADING_NAMES
        if texts.get(name) is not None
    }


def heading_of(certificate: Certificate) -> dict[str, str]:
    """Returns the texts that a certificate states, by name; empty for none.

    Anybody may have edited the file, so what no option takes is left out.
    """
    stated = certificate.public.get("heading")
    if not isinstance(stated, Mapping):
        return {}
    heading: dict[str, str] = {}
    for name in HEADING_NAMES:
        try:
            heading |= check_heading({name: stated.get(name)})
        except OptionError:
            continue
    return heading
