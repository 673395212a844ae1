"""What the operator is told of the files that are read, and where nothing is written."""

from .conftest import HEADER, rows


def parts(desk):
    folder = desk.folder / "parts"
    folder.mkdir()
    lines = rows(200)
    for name, some in (("a.csv", lines[:100]), ("b.csv", lines[100:])):
        (folder / name).write_text("\n".join([HEADER, *some]) + "\n")
    return folder


def test_the_files_of_a_folder_are_told(desk, cli):
    folder = parts(desk)
    told = f"{folder} is read as one table of 2 files: a.csv, b.csv"
    fit = ["fit", folder, *desk.fit()[2:]]
    drafted = ["schema", "init", folder, "-o", desk.folder / "drafted.toml"]
    kinds = "age=integer,income=continuous,job=categorical,answer=categorical"
    found = ["schema", "discover", folder, "--epsilon", 5, "--kinds", kinds, "-o", desk.folder / "found.toml"]
    for arguments in (fit, drafted, found):
        ended = cli(*arguments)
        assert ended.code == 0, ended.err
        assert told in ended.err.replace("\n", " ").replace("  ", " ") or told in ended.err.replace("\n", "")
