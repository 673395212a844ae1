"""The gate: private records come up to it, noisy sums and counts leave it.

A method opens a `Gate` on records and a budget, and gets the answers to one plan. The
gate first pays, then reads, then adds the noise; nothing else leaves it::

    ledger            records                noise             release
      │ reserve          │ read                │ draw              │ commit
      ▼                  ▼                     ▼                   ▼
    ──●──────────────────●──── exact sums ─────●──── noisy sums ───●──►
      whole cost, before     private, in         once the cost       with its
      a record is read       integers            is confirmed        certificate

What the room promises:

- No record is read before the cost of the whole plan is reserved; no noise is drawn
  before the reservation is confirmed, and none twice (G-10, G-13).
- A record's vector is a function of that record alone, bit for bit, and clipped; sums
  of vectors are exact (G-02, G-06, G-07).
- Only `transaction` draws noise (`.importlinter` checks it), with one exception:
  OpenDP's AIM and MST draw their own (`sessions.marginals`, G-17).
- Messages, logs and warnings tell nothing of a record.

Methods and the command line call `gate` and `discovery.schema_gate`; `app` also opens
the sessions of streams and silos. In reading order:

- `gate`: the class `Gate`, with one method for each kind of query.
- `transaction`: the state machine that all kinds share, and the reservation in the
  ledger.
- `session`: answers one plan, its sums in rounds. `steps`: its steps on samples.
- `journal`: what a run has begun, on disk before its noise is drawn.
- `unbooked`: counts runs that no ledger records, and warns.
- `execution`: how vectors are computed, and the probe that records do not mix.
- `sums`: exact sums of vectors, and the threads that compute them.
- `samples`: records in memory, and Poisson samples of them.
- `sessions`: what steps compute, and the marginals that OpenDP chooses.
- `per_example`: gradients at single records.
- `engines`: sums on the machines of a cluster.
- `discovery`: estimates a schema, before there is one.
- `streams`: releases that grow, period by period.
- `silos`: sums over several owners, under masks.
"""
