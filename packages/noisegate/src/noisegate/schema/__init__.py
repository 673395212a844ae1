"""The schema: what is publicly known about a table, and how records become numbers.

An owner states the schema without looking at the private records: which columns there
are, between which bounds, with which levels. What becomes of a record before noise is
added follows from the record and this public knowledge::

    schema file ──► Schema ──► Layout                    public knowledge

    Arrow table ── encode ──► Rows: positions, codes     private
                                   │
                       sums with noise, models           elsewhere
                                   ▼
    Arrow table ◄── decode ── Rows, drawn again           synthetic

It promises three things:

1. What a cell becomes depends on that cell and the schema alone, bit for bit: one
   record more or less changes nothing in the others (G-06).
2. Every encoded value lies within the public bounds, or is an atom that the schema
   names.
3. Every decoded value keeps to its column: its bounds, levels and steps. Relations
   hold in every decoded record. `Schema.broken` finds the records that break a
   constraint, or whose computed values leave their bounds, and models draw others in
   their place.

It holds, in the order in which to read it:

- `checks`: checks of single values in a schema.
- `kinds`: the kinds of column, each in a file of its own.
- `columns`: all kinds together, their forms in files, and what data do wrong.
- `schema`: the class `Schema`, in which everything below comes together.
- `layout`: which column stands where, and numbers as positions in [0, 1].
- `parsing`: from cells to numbers.
- `encode`, `decode`: from Arrow tables to records and back.
- `formats`: how text writes numbers and days, such as $1,234.50.
- `constraints`: rules that no record breaks, and regions of records.
- `relations`: rules that hold by construction, as they change what is measured.
- `satisfiable`: whether any record keeps to all constraints.
- `pixels`: the same for images, with a column for each pixel.
- `files`: schema files in TOML.
- `file_form`: how text files are written that are no plain CSV.
- `bounds`: bounds that a reader would choose, for drafts and discoveries.

Any package may call it. It reads no file of data, and draws no noise. What `encode`
raises, a `Problem`, holds a private value, which callers must not show unless they were
told to.
"""

from collections.abc import Iterable, Sequence

from noisegate.schema.columns import Column, NumericColumn
from noisegate.schema.constraints import Comparison, Constraint, Impossible, Region
from noisegate.schema.decode import decode
from noisegate.schema.file_form import FileForm
from noisegate.schema.kinds import (
    Boolean,
    Categorical,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Duration,
    Integer,
    Ordinal,
)
from noisegate.schema.kinds.coded import CodedColumn
from noisegate.schema.layout import EncodedTable, Layout
from noisegate.schema.pixels import ImageForm, ImageShape, Resize
from noisegate.schema.relations import (
    Expression,
    Formula,
    Lookup,
    OneOf,
    OnlyIf,
    Ordered,
    Parts,
    Relation,
    Together,
)
from noisegate.schema.schema import DEFAULT_MISSING_VALUES, Schema

# Schemas that were pickled before 0.3 name modules that were moved; see `_old_names`.
__path__.append(f"{__path__[0]}/../_old_names/schema")

__all__ = [
    "DEFAULT_MISSING_VALUES",
    "Boolean",
    "Categorical",
    "CodedColumn",
    "Column",
    "Comparison",
    "Constraint",
    "Continuous",
    "Date",
    "Datetime",
    "Decimal",
    "Duration",
    "EncodedTable",
    "Expression",
    "FileForm",
    "Formula",
    "ImageForm",
    "ImageShape",
    "Impossible",
    "Integer",
    "Layout",
    "Lookup",
    "NumericColumn",
    "OneOf",
    "OnlyIf",
    "Ordered",
    "Ordinal",
    "Parts",
    "Region",
    "Relation",
    "Schema",
    "Together",
    "decode",
    "pixel_schema",
]


def pixel_schema(
    height: int,
    width: int,
    channels: int = 1,
    *,
    labels: Sequence[str | int] | None = None,
    label: str = "label",
    resize: Resize = "refuse",
    convert: bool = False,
) -> Schema:
    """Creates the schema of images: columns of integers from 0 to 255, and a label.

    Args:
        height: Number of rows of pixels.
        width: Number of pixels in a row.
        channels: Number of intensities of a pixel: 1 for grey images, 3 for colour.
        labels: All possible labels, by public knowledge, all text or all integers; None
            for images without a label.
        label: Name of the column with the label.
        resize: What to do with an image of another size: "refuse", "stretch", "crop" or
            "pad" it; see `ImageForm`.
        convert: Whether images in other colour modes are converted to grey or colour.
            If not, they are refused.

    Returns:
        The schema.

    Raises:
        SchemaError: if a number is not positive, or the labels or their name are
            unusable.

    Examples:
        >>> from noisegate.schema import pixel_schema
        >>> pixel_schema(28, 28, labels=range(10)).names[-2:]
        ('pixel_27_27', 'label')
    """
    shape = ImageShape(height=height, width=width, channels=channels)
    if labels is None:
        form = ImageForm(shape=shape, resize=resize, convert=convert)
    else:
        # What is no list of labels is left as it is, for the form to refuse.
        is_list = isinstance(labels, Iterable) and not isinstance(labels, str)
        form = ImageForm(
            shape=shape,
            label=label,
            labels=tuple(labels) if is_list else labels,  # type: ignore[arg-type]
            resize=resize,
            convert=convert,
        )
    return Schema(form.columns, label=form.label, images=form)
