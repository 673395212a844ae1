"""Output: synthetic records as tables in memory, and as files.

Records leave a model as an Arrow table with the types that the schema states. From
there::

    pa.Table ──► native_table ──► pandas, Polars, NumPy: what the user works with
             ──► sample_file ───► CSV and Parquet, or files of images

- `native_table`: the kind of table that the private records came in, without anything
  that its dtypes may reveal of them.
- `sample_file`: files by the ending of their name, and batches of images.
"""
