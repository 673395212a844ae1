"""`noisegate release`: what one silo hands out under a plan that several share. `noisegate merge`: adds these up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from typer import Argument, Context, Option

from noisegate.app.cli.console import OUT, print_json
from noisegate.app.cli.fit import ShowValues, console_observer, report_fit
from noisegate.app.cli.options import (
    Address,
    EngineOption,
    FitOptions,
    Json,
    expand_options,
    required,
    select_engine,
)
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.app.runs.folder import Run

_BESIDE_A_PLAN = {
    *(
        "data",
        "out",
        "silo",
        "plan",
        "after",
        "epsilon",
        "delta",
        "dataset",
        "ledger",
        "on_error",
        "engine",
    ),
    *(
        "address",
        "show_values",
        "as_json",
        "settings",
        "secure_sum",
        "key",
        "colluding",
    ),
}
After = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="What `noisegate merge` made of the round before, where a method asks in rounds.",
    ),
]


def key_command(
    silo: Annotated[str, Argument(help="Name of this silo.")],
    out: Annotated[
        Path,
        Option(
            "--out", "-o", help="File of the private key; NAME.pub is made beside it."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Make the keys of a silo for `release --secure-sum`: hand out the public one, and keep the private one.

    Example: `noisegate key north --out north.key`
    """
    from noisegate.gate.silos.keys import write_key

    public = write_key(silo, out)
    if as_json:
        print_json({"silo": silo.strip(), "private": str(out), "public": str(public)})
        return
    OUT.print(
        f"Keep {out}: whoever has it can take the masks of {silo} off. Hand {public} to all silos."
    )


def sign_command(
    model: Annotated[Path, Argument(help="Folder of `fit`, `release` or `merge`.")],
    key: Annotated[
        Path,
        Option(
            metavar="FILE",
            help="Ed25519 private key, PEM; a new name makes one, and NAME.pub beside it.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Sign a model folder, so that recipients can check who made it: a DSSE envelope over the hashes of all files.

    Example: `noisegate sign model --key owner.key`
    """
    from noisegate.app.signature import sign

    made = sign(model, key)
    if as_json:
        print_json({"signature": str(made), "public": str(key.with_suffix(".pub"))})
        return
    shown = escape(f"noisegate verify {model} --signed-by {key.with_suffix('.pub')}")
    OUT.print(
        f"Wrote {made}. Recipients, who have the public key from you: {shown}",
        soft_wrap=True,
    )


@expand_options
def release_command(
    context: Context,
    data: Annotated[
        str, Argument(help="Private records of this silo; see `noisegate fit`.")
    ],
    out: Annotated[
        Path, Option("--out", "-o", help="Folder to make, for whoever merges.")
    ],
    silo: Annotated[str, Option(help="Name of this silo, in its certificate.")],
    plan: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Published plan, of `noisegate plan --save`, in place of --schema, --method and so on.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        Option(
            help="ε of the guarantee, of all rounds together; with --plan, if it is another."
        ),
    ] = None,
    after: After = None,
    secure_sum: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Folder with the public key (NAME.pub) of every silo: release a masked share of sums of which nobody "
            "sees this silo's part.",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        Option(metavar="FILE", help="With --secure-sum: private key of this silo."),
    ] = None,
    colluding: Annotated[
        int,
        Option(
            help="With --secure-sum: how many silos may tell what they know to whoever merges. Each is one itself."
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
    from noisegate.gate.silos.keys import silo_key

    chosen = select_engine(engine, address)
    run = (
        options.to_run(required(epsilon, "--epsilon or --plan"))
        if plan is None
        else _planned(context, options, plan)
    )
    secure = silo_key(secure_sum, key, colluding)
    asked = next_round(
        run, silo, None if after is None else read_release(after), secure
    )
    folder = RunFolder(out, observer=console_observer(options.method, as_json))
    made = release_round(folder, asked, data, show_values=show_values, engine=chosen)
    certificate = made.certificate
    if as_json:
        told = {
            "out": str(out),
            "plan": certificate.public["plan"],
            "silo": silo,
            "queries": sorted(made.values),
        }
        print_json(told | {"certificate": certificate.to_json()})
        return
    OUT.print(
        f"Released {', '.join(made.values)} under plan {certificate.public['plan']}."
    )
    OUT.print(
        f"Hand out {out}; it holds no record. With those of the others: noisegate merge {out} ... --out DIR"
    )


def _planned(context: Context, options: FitOptions, plan: Path) -> Run:
    from noisegate.app.silos.shared_plan import read_plan

    typed = options.explicit_options(context)
    twice = [*(set(typed) - _BESIDE_A_PLAN), *typed["settings"]]
    if twice:
        cure = "leave it out. Of it, only --epsilon and --delta may be a silo's own."
        raise OptionError(
            f"--{twice[0].replace('_', '-')}: the published plan {plan} says what is asked; {cure}"
        )
    own: dict[str, Any] = {
        name: typed[name] for name in ("epsilon", "delta") if name in typed
    }
    return read_plan(
        plan,
        dataset=options.dataset,
        ledger=options.run_ledger,
        on_error=options.on_error,
        **own,
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
            help="Model folder to make; of a round before the last, a release.",
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
            help="Who states that no unit has records in two silos; the certificate says so.",
        ),
    ] = None,
    device: Annotated[
        str, Option(help="Where to fit: auto, cpu, cuda or mps.")
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Add up what several silos released, and fit one model to it. Reads no record, spends nothing.

    Example: `noisegate merge north south west --out model --stated-by "the patient registry"`
    """
    from noisegate.app.silos.merging import merge
    from noisegate.privacy.release import Release

    started = time.monotonic()
    paths = [str(path.resolve()) for path in releases]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise OptionError(f"{twice} is given twice; give the folder of each silo once.")
    told: dict[str, Any] = {
        "after": after,
        "overlapping": overlapping,
        "stated_by": stated_by,
        "device": device,
    }
    made = merge(releases, out=out, observer=console_observer("", as_json), **told)
    if not isinstance(made, Release):
        report_fit(made, out, time.monotonic() - started, as_json)
        return
    certificate = made.certificate
    if as_json:
        shown = {
            "out": str(out),
            "plan": certificate.public["plan"],
            "queries": sorted(made.values),
        }
        print_json(shown | {"certificate": certificate.to_json()})
        return
    OUT.print(
        f"Added up {', '.join(made.values)}. One more round follows from it: hand out {out} to all silos, then"
    )
    OUT.print(
        f"  noisegate release DATA --plan FILE --silo NAME --after {out} --out DIR"
    )
