"""The application: what a user calls, by command or in Python.

It hands files to the gate, and releases to models.

- `cli`: the command line, one file a verb.
- `request`: what a run is asked for; every option is declared there.
- `runs`: one run: the folder it is written to, its progress, and its log.
- `start`: the guided interview, in a terminal or a browser.
- `drafts`: drafts of a schema, from records of the owner or from a dictionary.
- `streams`, `silos`: periods of a stream, and releases that several silos share.
- `signature`: signatures of a release's owner.
- `analyses`, `copies`: what a plan means for an analysis, and several copies for one.
- `demo`: the survey that ships with statsmodels, from file to synthetic copy.
"""
