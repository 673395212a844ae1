"""Runs: from private records to a saved model, through any interruption.

A run pays for its queries, reads the records, draws the noise and fits a model. It may
be stopped at any point, by Ctrl-C, a crash or a power cut, and continues without paying
again::

    Run ──► Gate ──► Release ──► Fit ──► model folder
             │          │         │
             ▼          ▼         ▼
            RunFolder: what a stopped run needs to continue, written on the way

- `folder`: `Run`, a request that can be run; `RunFolder`, the files that it leaves on
  its way; and `Observer`, which is told what happens: `LogObserver` logs it.
- `log`: the text file in which a run says what it did.
- `work`: starts, resumes and executes runs, for Python and the command line alike.
"""
