"""The privacy core: what a guarantee is, what it costs, and how results state it.

It knows no data. Whoever reads records, the gate above all, takes bounds, noise and
costs from here; whoever gets a result checks it with what is here::

    before the records                  at the gate              what leaves it

    Query ─► plan_sums ───► Plan ────► Grid.quantise ─► sum ─► Release
             least noise     │         add_noise               │ values, noise_std
             for a Budget    │                                 ▼
                             ▼                                 Certificate
                           events ─────────────────────────► events
                             │                                 │
                             ╰──────► accounting.epsilon ◄─────╯
                                  one ε, computed twice: as the cost before,
                                  and from the certificate by anybody, after

What holds, whoever calls:

1. *One vector, one bound.* A record's vector is clipped and rounded to integers by
   itself, so that a sum has the stated sensitivity exactly (`grid`, G-01, G-02).
2. *Noise is drawn in one file,* on the integers, without a seed (`noise`).
3. *ε is computed in one file,* from events, and is an upper bound: every rounding goes
   to the safe side, and what cannot be accounted is refused (`accounting`, G-03).
4. *The cost is fixed before the first record is read.* A plan that costs more than
   its budget cannot be made (`plan`).
5. *Stored events and certificates are read for ever.* What is unknown in one is refused
   and never skipped, since it may have cost something (`events`, `certificate`).

A code such as G-03 names a statement in docs/guarantees.md, with its proof.
Sensitivities and noise are in *grid units*, the integers that vectors are rounded to,
unless a name says otherwise.

The files, from the ground up:

- `grid`: from a vector to integers of bounded norm, and the sensitivity of their sums.
- `gradient_grid`: the same for gradients of single records.
- `events`: what neighbours and privacy units are, and one class for each mechanism.
- `noise`: the samplers.
- `accounting`: from events to ε at a δ. `composition` has the numerical part, for steps
  on Poisson samples.
- `plan`: a plan is a budget and queries with their noise, here sums over all records.
  `gradient_plan` and `shard_plan` plan steps on samples and on shards, `marginal_plan`
  adaptive mechanisms, and `continual_plan` the periods of a stream.
- `silos`: what was added up to one release, and what a unit pays for it.
- `certificate`: the statement that goes with a result, its check and its page.
- `release`: noisy sums with their certificate, in memory and in a folder.
- `schema_certificate`: the certificate of a schema that was discovered from records.
"""
