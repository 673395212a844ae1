"""The processes of `test_kills.py`: each runs the program and gets a signal at a named place in it.

Reads cases as lines of JSON. The processes are forked from one that has imported everything, since interpreters with
torch take longer to start than these verbs to run; each has signals, files and a working directory of its own.
"""

import importlib
import json
import os
import signal
import sys

WARM = (
    "torch",
    "opendp.prelude",
    "pandas",
    "pyarrow.csv",
    "safetensors.torch",
    "noisegate.app.runs.work",
    "noisegate_images.training.moment_matching",
    "noisegate.gate.discovery.schema_gate",
    "noisegate.methods.registry",
    "noisegate.models.folder",
    "noisegate.ledger.tables",
)


def aim(stage, when, number):
    """Makes the named function send the signal to its own process, once, before or after it did its work."""
    place, _, path = stage.partition(":")
    owner = importlib.import_module(place)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    asked = getattr(owner, name)

    def hit(*args, **kwargs):
        setattr(owner, name, asked)
        if when == "before":
            os.kill(os.getpid(), number)
        result = asked(*args, **kwargs)
        if when == "after":
            os.kill(os.getpid(), number)
        return result

    setattr(owner, name, hit)


def count_draws(path):
    """Adds a letter to a file for each noise, before it is drawn."""
    from noisegate.privacy import noise

    right = noise.add_noise

    def counted(*args, **kwargs):
        with open(path, "a") as draws:
            draws.write(".")
        return right(*args, **kwargs)

    noise.add_noise = counted


def play(case):
    """Runs the program in this process, as from a shell."""
    os.chdir(case["cwd"])
    for file, descriptor in (("out", 1), ("err", 2)):
        os.dup2(os.open(case[file], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    sys.argv = ["noisegate", *case["argv"]]
    count_draws(case["draws"])
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a background job's child would ignore it
    if case["stage"]:
        aim(case["stage"], case["when"], case["signal"])
    if case["argv"][0] == "python":
        return fit_in_python(json.loads(case["argv"][1]))
    from noisegate.app.cli.start import start

    try:
        start()
    except SystemExit as end:
        return end.code
    except BaseException as error:
        print(f"Traceback: {error!r}", file=sys.stderr)
        return 99


def fit_in_python(options):
    """Runs a fit of the library; ends as an interpreter would."""
    import noisegate

    try:
        noisegate.fit(**options)
    except KeyboardInterrupt as error:
        print(*getattr(error, "__notes__", []), file=sys.stderr)
        return 130
    except noisegate.NoisegateError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def main():
    for module in WARM:
        importlib.import_module(module)
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = play(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code or 0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
