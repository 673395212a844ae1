"""What several silos do: `noisegate release`, `merge`, `key`; and `noisegate sign`.

Silos that may not pool their records share one plan::

    plan --save plan.json                            one of them publishes the plan
    release north.csv --plan plan.json --silo north  each silo adds its own noise
    release south.csv --plan plan.json --silo south
    merge north south --out model                    anybody adds them up, and fits

A method that asks in rounds needs `release --after` and `merge` once more for each:
what a later round asks follows from the sums of the earlier ones, and ε covers all of
them. The merged release of a round that is not the last goes back to all silos.

With `release --secure-sum`, for which `key` makes the keys, each silo hands out its
sums under masks that cancel when all are added, so that nobody sees the sums of one
silo. `sign` is for any folder that is released.

What a silo may choose by itself beside a published plan are ε and δ; all else is the
plan's, since sums of different queries cannot be added.

What the commands write, and who may have it::

    key       NAME.key       stays with the silo
              NAME.pub       goes to all silos
    release   a folder       noisy or masked sums and a certificate: whoever merges
    merge     a folder       the model and its certificate: anybody
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from typer import Argument, Context, Option

from noisegate.app.cli.console import ERR, OUT, print_json
from noisegate.app.cli.fit import ConsoleObserver, ShowValues, report_fit
from noisegate.app.cli.options import (
    Address,
    EngineOption,
    FitOptions,
    Json,
    LogOption,
    expand_options,
    required,
    select_engine,
)
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.app.runs.folder import Run

_OWN_OPTIONS = {"delta", "epsilon", "on_error"}
"""Options of a request in which a silo may differ from a published plan."""
After = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="Output of `noisegate merge` for the previous round, if the method has "
        "rounds.",
    ),
]


def key_command(
    silo: Annotated[str, Argument(help="Name of this silo.")],
    out: Annotated[
        Path,
        Option(
            "--out",
            "-o",
            help="File of the private key; NAME.pub is written beside it.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Make the keys of a silo for `release --secure-sum`: share the public one only.

    Example: `noisegate key north --out north.key`
    """
    from noisegate.gate.silos.keys import write_key

    public_key = write_key(silo, out)
    if as_json:
        print_json(
            {"silo": silo.strip(), "private": str(out), "public": str(public_key)}
        )
        return
    OUT.print(
        f"Keep {out} secret: it removes the masks of {silo}. Give {public_key} to "
        "all silos."
    )


def sign_command(
    model: Annotated[Path, Argument(help="Folder of `fit`, `release` or `merge`.")],
    key: Annotated[
        Path,
        Option(
            metavar="FILE",
            help="Ed25519 private key, PEM; a new name creates a key, and NAME.pub "
            "beside it.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Sign a model folder, so that recipients can check who made it: a DSSE envelope over the hashes of all files.

    Example: `noisegate sign model --key owner.key`
    """
    from noisegate.app.signature import sign

    signature = sign(model, key)
    public_key = key.with_suffix(".pub")
    if as_json:
        print_json({"signature": str(signature), "public": str(public_key)})
        return
    command = escape(f"noisegate verify {model} --signed-by {public_key}")
    OUT.print(
        f"Wrote {signature}. Recipients check it with your public key: {command}",
        soft_wrap=True,
    )


@expand_options
def release_command(
    context: Context,
    data: Annotated[
        str, Argument(help="Private records of this silo; see `noisegate fit`.")
    ],
    out: Annotated[
        Path, Option("--out", "-o", help="Folder to write, for the party that merges.")
    ],
    silo: Annotated[str, Option(help="Name of this silo, in its certificate.")],
    plan: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Published plan, of `noisegate plan --save`, in place of --schema, "
            "--method and so on.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        Option(
            help="ε of the guarantee, over all rounds; with --plan, to override that of "
            "the plan."
        ),
    ] = None,
    after: After = None,
    secure_sum: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Folder with the public key (NAME.pub) of every silo: release a masked "
            "share, so that nobody sees this silo's own sums.",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        Option(metavar="FILE", help="With --secure-sum: private key of this silo."),
    ] = None,
    colluding: Annotated[
        int,
        Option(
            help="With --secure-sum: number of silos that may collude with the party "
            "that merges; a silo that sees the result counts as one."
        ),
    ] = 1,
    *,
    options: FitOptions,
    engine: EngineOption = "local",
    address: Address = None,
    show_values: ShowValues = False,
    as_json: Json = False,
) -> None:
    """Release noisy sums of one silo's records, to be added to those of other silos: spends ε, fits nothing.

    Example: `noisegate release north.csv --plan plan.json --silo north --out north`
    """
    from noisegate.app.runs.folder import RunFolder
    from noisegate.app.silos.rounds import next_round, read_release, release_round
    from noisegate.gate.silos.keys import read_silo_key

    selected_engine = select_engine(engine, address)
    if plan is None:
        required(epsilon, "--epsilon or --plan")
        run = options.to_run()
    else:
        run = _run_of_plan(context, options, plan)
    # None for plain sums: neither --secure-sum nor --key is typed.
    key_of_silo = read_silo_key(secure_sum, key, colluding)
    rounds_before = None if after is None else read_release(after)
    current_round = next_round(run, silo, rounds_before, key_of_silo)
    folder = RunFolder(
        out,
        observer=ConsoleObserver(options.request.method, as_json),
        log=options.request.log,
    )
    release = release_round(
        folder, current_round, data, show_values=show_values, engine=selected_engine
    )
    certificate = release.certificate
    plan_id = certificate.public["plan"]
    if as_json:
        print_json(
            {
                "out": str(out),
                "plan": plan_id,
                "silo": silo,
                "queries": sorted(release.values),
                "certificate": certificate.to_json(),
            }
        )
        return
    if ERR.quiet:
        return
    OUT.print(f"Released {', '.join(release.values)} under plan {plan_id}.")
    OUT.print(
        f"Share {out}; it holds no record. To merge it with the releases of the "
        f"other silos: noisegate merge {out} ... --out DIR"
    )


def _run_of_plan(context: Context, options: FitOptions, plan: Path) -> Run:
    """Returns the run that a published plan describes, at the cost of this silo.

    Args:
        context: Context of the verb, which knows the options that were typed.
        options: Of the verb.
        plan: File of the published plan.

    Raises:
        OptionError: if an option is typed that the plan states.
        ModelError: if the file is no such plan.
    """
    from noisegate.app.silos.shared_plan import read_plan

    stated_twice = options.stated_by_plan(context, _OWN_OPTIONS)
    if stated_twice:
        raise OptionError(
            f"{stated_twice[0]}: the published plan {plan} fixes this; leave it "
            "out. A silo may choose only --epsilon and --delta."
        )
    explicit = options.explicit_options(context)
    # A silo may pay another cost than the plan states.
    price = {name: explicit[name] for name in ("epsilon", "delta") if name in explicit}
    return read_plan(
        plan,
        dataset=options.request.dataset,
        ledger=options.run_ledger,
        on_error=options.request.on_error,
        **price,
    )


def merge_command(
    releases: Annotated[
        list[Path], Argument(help="Folders of `noisegate release`, one of each silo.")
    ],
    out: Annotated[
        Path,
        Option(
            "--out",
            "-o",
            help="Model folder to write; before the last round, a release.",
        ),
    ],
    after: After = None,
    overlapping: Annotated[
        bool,
        Option(
            "--overlapping",
            help="A unit may have records in several silos: their costs add up.",
        ),
    ] = False,
    stated_by: Annotated[
        str | None,
        Option(
            metavar="WHO",
            help="Name of whoever states that no unit has records in two silos; written "
            "into the certificate.",
        ),
    ] = None,
    device: Annotated[
        str, Option(help="Where to fit: auto, cpu, cuda or mps.")
    ] = "auto",
    log: LogOption = None,
    as_json: Json = False,
) -> None:
    """Add up what several silos released, and fit one model to it. Reads no record, spends nothing.

    Example: `noisegate merge north south west --out model
    --stated-by "the patient registry"`
    """
    from noisegate.app.silos.merging import merge
    from noisegate.privacy.release import Release

    start_time = time.monotonic()
    # Else the records of a silo would count twice, and so would its noise.
    paths = [str(path.resolve()) for path in releases]
    repeated = next((path for path in paths if paths.count(path) > 1), None)
    if repeated is not None:
        raise OptionError(
            f"{repeated} is given twice; give the folder of each silo once."
        )
    merged = merge(
        releases,
        after=after,
        overlapping=overlapping,
        stated_by=stated_by,
        out=out,
        device=device,
        observer=ConsoleObserver("", as_json),
        log=log,
    )
    # After a round that is not the last there is a release and no model yet: what the
    # next round asks follows from it.
    if not isinstance(merged, Release):
        report_fit(merged, out, time.monotonic() - start_time, as_json)
        return
    certificate = merged.certificate
    if as_json:
        print_json(
            {
                "out": str(out),
                "plan": certificate.public["plan"],
                "queries": sorted(merged.values),
                "certificate": certificate.to_json(),
            }
        )
        return
    if ERR.quiet:
        return
    OUT.print(
        f"Added up {', '.join(merged.values)}. One more round is needed: give "
        f"{out} to all silos, then"
    )
    OUT.print(
        f"  noisegate release DATA --plan FILE --silo NAME --after {out} --out DIR"
    )
