"""Options that cannot be, of every verb: what the program itself says of its options makes most of the cases."""

import pytest

from noisegate.app.cli.main import program

from .conftest import argv, refused

# What makes each verb go, where it needs anything: the option under test is put behind it.
NEEDED = {
    "methods": [],
    "split": ["data.csv"],
    "sign": ["nowhere", "--key", "owner.key"],
    "plan": argv("--epsilon 1 --schema schema.toml"),
    "fit": argv("data.csv --schema schema.toml --epsilon 1 --out model --dataset clinic --ledger ledger.db"),
    "sample": argv("nowhere -n 5 -o x.csv"),
    "export": ["nowhere", "--nist", "sheet.md"],
    "infer": ["nowhere", "mean(age)"],
    "evaluate": argv("--synthetic data.csv --test data.csv --schema schema.toml"),
    "explain": ["nowhere"],
    "predict": argv("nowhere data.csv -o x.csv"),
    "report": ["nowhere", "-o", "pages"],
    "verify": ["nowhere"],
    "audit": ["pairwise"],
    "example": [],
    "demo": ["--out", "demo"],
    "start": ["--data", "data.csv"],
    "schema init": ["data.csv", "-o", "new.toml"],
    "schema discover": argv("data.csv --epsilon 1 -o new.toml "
                            "--kinds age=integer,income=continuous,job=categorical,answer=categorical"),
    "schema check": ["schema.toml"],
    "ledger register": argv("other --epsilon 1 --ledger ledger.db"),
    "ledger show": ["--ledger", "ledger.db"],
    "ledger history": ["clinic", "--ledger", "ledger.db"],
    "ledger check": ["--ledger", "ledger.db"],
    "key": ["north", "--out", "north.key"],
    "release": argv("data.csv --schema schema.toml --epsilon 1 --silo north --out new"),
    "merge": argv("north south --out new"),
    "pretrain encoder": ["scans", "--out", "encoder.safetensors"],
    "pretrain decoder": ["scans", "--out", "decoder.safetensors"],
    "pretrain import": ["hed", "--out", "hed.safetensors"],
}  # fmt: skip
WHOLE = {"--records", "--seed", "--contributions", "--jobs", "--repeats", "--epochs", "--most", "--channels",
         "--runs", "--colluding", "--window"}  # fmt: skip
REAL = {"--epsilon", "--delta", "--report-share", "--cap"}


def verbs(group=None, before=""):
    """Yields each verb of the program, such as "schema check", with what the program says of it."""
    group = group or program()
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from verbs(command, f"{before}{name} ")
        else:
            yield before + name, command


def option_cases():
    """Yields a name, the words after `noisegate`, and what the message says, for each option of each verb."""
    for verb, command in verbs():
        for parameter in command.params:
            if parameter.param_type_name != "option" or parameter.name == "help":
                continue
            option = parameter.opts[0]
            words = [*verb.split(), *NEEDED[verb]]
            if parameter.is_flag:
                yield f"{verb} {option}=maybe", [*words, f"{option}=maybe"], option
                continue
            real = option in REAL or (verb, option) == ("split", "--test")
            for value in ["x", "1.5", "1e3", "nan"] * (option in WHOLE) + [
                "x",
                "1,5",
                "1e",
            ] * real:
                yield (
                    f"{verb} {option} {value}",
                    [*_without(words, parameter), option, value],
                    option,
                )
            if parameter.name != "label":
                yield (
                    f"{verb} {option} blank",
                    [*_without(words, parameter), option, " "],
                    option,
                )
                yield (
                    f"{verb} {option}= empty",
                    [*_without(words, parameter), f"{option}="],
                    option,
                )
            yield (
                f"{verb} {option} without value",
                [*_without(words, parameter), option],
                option,
            )


def _without(words, parameter):
    """The words without those that give this option."""
    index = next(
        (index for index, word in enumerate(words) if word in parameter.opts), None
    )
    return words if index is None else [*words[:index], *words[index + 2 :]]


CASES = {name: case for name, *case in option_cases()}


def test_every_verb_is_asked():
    assert {verb for verb, _ in verbs()} == set(NEEDED)


@pytest.mark.parametrize("verb", NEEDED)
def test_the_options_of_a_verb(bench, cli, verb):
    for name, (words, option) in CASES.items():
        if name.startswith(f"{verb} -"):
            refused(bench, cli, option, arguments=words)
    bench.as_before()


ARGUMENTS = {
    verb: NEEDED[verb]
    for verb in NEEDED
    if not "".join(NEEDED[verb][:1]).startswith("-") and verb != "methods"
}


@pytest.mark.parametrize("verb", ARGUMENTS)
@pytest.mark.parametrize("blank", ["", " "])
def test_an_argument_that_is_blank(bench, cli, verb, blank):
    refused(bench, cli, "is empty", arguments=[*verb.split(), blank, *NEEDED[verb][1:]])
    bench.as_before()


@pytest.mark.parametrize("verb", NEEDED)
def test_a_word_too_many(bench, cli, verb):
    refused(
        bench,
        cli,
        arguments=[*verb.split(), *NEEDED[verb], *["one", "more", "and", "more"]],
    )
    bench.as_before()


FIT = ["fit", *NEEDED["fit"]]
PLAN = ["plan", "--epsilon", "1"]
IMAGES = argv("--size 8 --classes 2")
KINDS = "age=integer,income=continuous,job=categorical,answer=categorical"
DISCOVER = argv("schema discover data.csv --epsilon 1 -o new.toml")
EVALUATE = ["evaluate", *NEEDED["evaluate"]]
VALUES = {
    "out is the folder": (argv("fit data.csv --schema schema.toml --epsilon 1 --out ."), "--out '.'"),
    "out is the root": (argv("fit data.csv --schema schema.toml --epsilon 1 --out /"), "--out '/'"),
    "schema to the folder": (argv("schema init data.csv -o ."), "--out '.'"),
    "schema to the root": (argv("schema init data.csv -o /"), "--out '/'"),
    "demo in the folder": (["demo", "--out", "."], "--out"),
    "channels 2": ([*PLAN, *IMAGES, "--channels", "2"], "--channels 2", "1 for grey"),
    "size 0": ([*PLAN, *argv("--size 0 --classes 2")], "height=0"),
    "size of a poster": ([*PLAN, *argv("--size 10000 --classes 2")], "10000 x 10000 x 1", "memory"),
    "size of three numbers": ([*PLAN, *argv("--size 8,8,8 --classes 2")], "--size", "HEIGHT,WIDTH"),
    "a class twice": ([*PLAN, *argv("--size 8 --classes cat,cat")], "'cat'", "more than once"),
    "a class without name": ([*PLAN, *argv("--size 8 --classes cat,,dog")], "--classes", "empty"),
    "a class with a mark": ([*PLAN, "--size", "8", "--classes", "cat,d\u202eog"], "U+202E"),
    "a label with a mark": ([*PLAN, *IMAGES, "--label", "a\x07b"], "U+0007"),
    "no size": ([*PLAN, "--classes", "2"], "--size"),
    "no classes": ([*PLAN, "--size", "8"], "--classes"),
    "images with a schema": ([*PLAN, *IMAGES, "--schema", "schema.toml"], "both describe"),
    "unlabelled with classes": ([*PLAN, *IMAGES, "--unlabelled"], "--unlabelled"),
    "resize unknown": ([*PLAN, *IMAGES, "--resize", "melt"], "melt", "stretch"),
    "setting a name": ([*FIT, "--set", "name=x"], "name"),
    "setting without name": ([*FIT, "--set", "=3"], "NAME=VALUE"),
    "method misspelt": ([*FIT, "--method", "dp-mirf"], "dp-mirf", "dp-merf"),
    "an unsupported ledger": ([*FIT[:-1], "mysql://somewhere/db"], "mysql", "postgresql://"),
    "a ledger that is not there": ([*FIT[:-1], "none.db"], "none.db", "register"),
    "a ledger that is a folder": (argv("ledger show --ledger ."), "folder"),
    "seed too large": ([*FIT, "--seed", str(2**63)], "--seed"),
    "no schema": (argv("fit data.csv --epsilon 1 --out m"), "--schema is required", "leak", "schema init"),
    "no epsilon": (["plan", "--schema", "schema.toml"], "--epsilon"),
    "public that is not there": ([*FIT, *argv("--method dp-dre --public none.csv --records 200")], "none.csv"),
    "resume of nothing": (argv("fit --resume --out model"), "model"),
    "resume of nothing with data": (argv("fit data.csv --resume --out model"), "model"),
    "kinds twice": ([*DISCOVER, "--kinds", "age=integer,age=categorical"], "--kinds", "'age'", "twice"),
    "kinds without kind": ([*DISCOVER, "--kinds", "age"], "NAME=KIND"),
    "kinds unknown": ([*DISCOVER, "--kinds", "age=float"], "float", "continuous"),
    "columns file not UTF-8": ([*DISCOVER, "--columns", "ledger.db"], "ledger.db"),
    "n zero": (argv("sample nowhere -n 0 -o x.csv"), "at least 1"),
    "n negative": (argv("sample nowhere -n -3 -o x.csv"), "-3"),
    "where no condition": (argv("sample nowhere -n 3 -o x.csv --where sex"), "NAME=VALUE"),
    "where twice": (argv("sample nowhere -n 3 -o x.csv --where a=1 --where a=2"), "'a'"),
    "a model that is not there": (argv("sample nowhere -n 3 -o x.csv"), "nowhere"),
    "a model that is the desk": (argv("sample . -n 3 -o x.csv"), "model.json"),
    "verify a file": (["verify", "data.csv"], "data.csv"),
    "explain what is not there": (["explain", "nowhere"], "nowhere"),
    "classifiers unknown": ([*EVALUATE, "--classifiers", "four"], "four", "three"),
    "classifiers of images": ([*EVALUATE, "--classifiers", "cnn"], "cnn"),
    "jobs zero": ([*EVALUATE, "--jobs", "0"], "--jobs"),
    "repeats without networks": ([*EVALUATE, "--repeats", "2"], "--repeats", "networks"),
    "image of two numbers": ([*EVALUATE, *argv("--classifiers networks --image 8,8")], "networks need images"),
    "most one": ([*EVALUATE, "--images", "--most", "1"], "--most"),
    "features of tables": ([*EVALUATE, "--features", "pixels"], "--features"),
    "images with a schema of a table": ([*EVALUATE, "--images"], "describes a table"),
    "evaluate without schema": (argv("evaluate --synthetic data.csv --test data.csv"), "--schema is required"),
    "page to nowhere": ([*EVALUATE, "--page", "none/x.html"], "--page none/x.html"),
    "history of nobody": (argv("ledger history clinc --ledger ledger.db"), "clinc"),
    "init of a private word": (argv("schema init -o new.toml"), "PUBLIC"),
    "init of what is not there": (argv("schema init none.csv -o new.toml"), "none.csv"),
    "init of images and a file": ([*argv("schema init data.csv --images"), *IMAGES, "-o", "new.toml"], "--images"),
    "init of images alone": (argv("schema init --images -o new.toml"), "--size"),
    "pretrain on nothing": (argv("pretrain encoder scans --out e.safetensors"), "scans"),
    "pretrain no epoch": (argv("pretrain encoder . --out e.safetensors --epochs 0"), "epochs"),
    "a verb misspelt": (["fitt", "data.csv"], "fitt"),
    "an option of another verb": (argv("verify nowhere --epsilon 1"), "--epsilon"),
    "an option of nobody": (["--quiet"], "--quiet"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_a_value_that_cannot_be(bench, cli, case):
    words, *messages = VALUES[case]
    refused(bench, cli, *messages, arguments=words)
    bench.as_before()
