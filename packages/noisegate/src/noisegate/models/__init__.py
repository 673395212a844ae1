"""Models: distributions over records, from which synthetic records are drawn.

A release is the release: noisy sums with their certificate. A method fits a
model to it, and a synthesizer hands out records of the model::

    Release ──► Fit ──► RecordModel ──► Synthesizer ──► tables and files
                 ▲                           ▲
                 ▼                           ▼
             Checkpoint                 model folder

- A `Fit` brings a model near to the release, in steps. It may be stopped, and continues
  from a `Checkpoint` with the same bits.
- A `RecordModel` draws encoded records. The default method for tables fits a `Mixture`
  or, with a label, a `LabelledMixture`; packages add others by entry points.
- A `Synthesizer` keeps the model together with its release. It draws records until
  enough of them satisfy the constraints and the caller's conditions, decodes them, and
  is saved and loaded.

Three rules hold for every model:

1. No file here can reach a private record; import contracts see to it. So whatever is
   fitted, drawn or computed here is post-processing, and costs no privacy.
2. A sample follows from the model and a seed alone.
3. What was saved stays readable: the names of tensors and of JSON fields are only added
   to, and old models load in every later version.

From the public side inwards:

- `synthesizer`: the class `Synthesizer`, and `load`.
- `output`: samples as the user's kind of table, and as files.
- `package`: a folder to hand out, whose records are described for machines.
- `linked`: models of several tables that are linked by keys.
- `folder`: a saved model as a folder whose hashes are checked.
- `rejection`: draws until enough records are accepted, within a limit.
- `record_model`: what every model can do, and the class of a saved kind.
- `labelled`: a mixture whose label has a model of its own.
- `mixture`: a mixture of product distributions over cells.
- `copula`: how two numbers go together inside their cells.
- `within_cell`: where in its cell a number lies.
- `stratified`: draws that are spread out evenly instead of independent.
- `checkpoint`: fits and trainings that can be resumed, and how a fit ended.
"""
