"""A picture of some synthetic images."""

import base64

from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.public import PublicPage


def _picture(page: PublicPage) -> Data:
    """Returns the picture as a page can hold it."""
    return {"encoded": base64.b64encode(page.picture).decode("ascii")}


IMAGES = Figure(
    place=30,
    needs=("picture",),
    data=_picture,
    template="""
<section class="screen">
<h2>Some synthetic images</h2>
<p>Each row is a class. They are drawn from the model, at no further cost.</p>
<div class="scroll" tabindex="0" role="region" aria-label="Synthetic images">
<img class="grid" src="data:image/png;base64,{{ encoded }}"
alt="Synthetic images, a row for each class"></div>
</section>
""",
)
