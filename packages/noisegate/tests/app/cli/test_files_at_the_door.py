"""Files as people have them, and what is said of them at the door: the table of what is right is beside the files."""

import tomllib
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("expected-doors.toml")
CASES = tomllib.loads(TABLE.read_text("utf-8"))["case"]


def text(head, row="", number=0):
    lines = [head]
    for i in range(1, number + 1):
        half = (i + 1) // 2
        some = (1 - i % 2) * (i % 39 + 1)
        fields = {
            "half": half,
            "two": i % 2,
            "three": i % 3,
            "word": ("yes", "no")[i % 2],
            "side": "fm"[half % 2],
        }
        fields |= {
            "some": some,
            "total": half + i % 3 + (i % 80 == 0),
            "pad": f"{i:06d}",
            "a": f"q{i * 7919 % 10007}x",
        }
        lines.append(row.format(i=i, **fields))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_is_said_of_a_file_at_the_door(case, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, parts in case["files"].items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text(*parts), "utf-8")
    ended = cli(*case["run"].split(), "-o", "out.toml")
    printed = " ".join(ended.err.split())
    assert ended.code == (0 if "holds" in case else 2), printed
    absent = [phrase for phrase in case.get("says", ()) if phrase not in printed]
    written = Path("out.toml").read_text("utf-8") if "holds" in case else printed
    assert not absent + [
        phrase for phrase in case.get("holds", ()) if phrase not in written
    ], written
    assert "SECRET" not in printed + ended.out
    assert Path("out.toml").exists() == ("holds" in case)
