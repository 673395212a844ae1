"""The command line: thin verbs over the public API.

A verb is a function whose typed parameters are its options. It reads what was typed,
calls the API, and prints the result as text for people or, with --json, as one JSON
object for programs::

    start ──► main ──► a verb ──► app.runs, app.silos, answers, models ...
    streams,  finds    reads      do the work
    signals   the verb options       │
                          ▲          ▼
                       options    console: text, JSON, progress, warnings

How the program begins and ends, and what all verbs share:

- `start`: puts signals and streams in order before the first slow import.
- `main`: the verbs that are installed, help, and exit codes.
- `options`: options that several verbs share.
- `console`: where and how results, progress and warnings are printed.
- `json_output.json`: the JSON Schema of what verbs print with --json.

The verbs, in the order of a data steward's work:

- `schema`: `schema discover`, `schema check`, and `split`.
- `plan`: `plan` and `methods`. `show_plan` prints plans; `precision` predicts how exact
  answers will be.
- `fit`: `fit`, and what a run tells the operator. `streams` fits the periods of a
  stream.
- `sample`: `sample`. `sample_files`, `sample_linked` and `sample_copies` write what it
  draws.
- `infer`: `infer`.
- `verify`: `verify`.
- `ledger`: `ledger register`, `show`, `history` and `check`.
- `silos`: `release`, `merge`, `key` and `sign`.

Two rules hold in all files. Heavy modules are imported inside the functions that need
them, since `noisegate --help` imports every verb. And a verb decides nothing about
privacy: it passes options on, and the gate and the ledger refuse what must not be.
"""
