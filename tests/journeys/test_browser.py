"""`noisegate start --browser`, for who fears a terminal: a page here, from a bare file to what is handed on."""

import http.client
import os
import re
import signal
import subprocess
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.journeys.conftest import SCRIPT, survey
from tests.shared.patience import PATIENCE

KNOWN = {
    "Private records": "survey.csv",
    "Approximate": "2000",
    "Column that names": "",
    "Epsilon": "",
    "Name of": "survey",
    "Cap on": "2",
}
KNOWN |= {"Model folder": "", "Held-out real records": "", "Folder of the pages": ""}
KNOWN |= {"Title of": "A survey", "Owner": "", "Purpose": ""}
MADE = {
    "Certificate": "# Privacy certificate",
    "Public page": "A survey",
    "Private page": "do not publish",
}
STOP = '{"stop": true}'


@contextmanager
def started(person, browser="true"):
    """Yields the process, which a script starts beside itself, and its address; the browser that it opens is none."""
    options = {
        "cwd": person.folder,
        "env": {**person.env, "BROWSER": browser},
        "stderr": subprocess.PIPE,
        "text": True,
    }
    with subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$0" start --browser', SCRIPT], **options
    ) as run:
        try:
            yield (
                run,
                next(
                    match[0]
                    for text in run.stderr
                    if (match := re.search(r"http://\S+", text))
                ),
            )
        finally:
            run.kill()


@pytest.fixture
def window(browser):
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE * 1000)
        yield context.new_page()


def answered(page, answers):
    for asks, text in answers.items():
        page.get_by_role("heading", name=asks).wait_for()
        if text:
            page.get_by_label(asks).fill(text)
        page.get_by_role("button", name="Next").click()


def pressed(page, asks, button, *choice):
    page.get_by_role("heading", name=asks).wait_for()
    for label in choice:
        page.get_by_label(label).check()
    assert not (results := Axe().run(page)).violations_count, results.generate_report()
    page.get_by_role("button", name=button).click()


def test_from_a_bare_file_to_downloads(person, window):
    (person.folder / "survey.csv").write_text(survey(2000))
    (person.folder / "public.csv").write_text(survey(1000, seed=1))
    requests = []
    complaints = []
    window.context.on("request", lambda request: requests.append(request.url))
    window.context.on("console", lambda message: complaints.append(message.text))
    with started(person) as (run, address):
        window.goto(address)
        pressed(window, "How will you describe the columns", "Next", "public")
        answered(window, {"File of public records": "nowhere.csv"})
        window.get_by_text("'nowhere.csv' does not exist.").wait_for()
        offered = window.locator("#near option").evaluate_all(
            "all => all.map(one => one.value)"
        )
        answered(
            window,
            {"File of public records": "public.csv", "to be predicted": "income"},
        )
        window.get_by_text('levels = ["farmer", "nurse", "teacher"]').wait_for()
        pressed(window, "Is everything in it public", "Yes, continue")
        other = window.context.new_page()
        other.goto(address)
        answered(window, KNOWN)
        pressed(other, "The fit spends epsilon = 1", "Yes, continue")
        window.set_viewport_size({"width": 500, "height": 900})
        window.emulate_media(color_scheme="dark")
        window.get_by_role("heading", name="Done").wait_for()
        assert window.evaluate("document.documentElement.scrollWidth") == 500
        window.locator("#printed").get_by_text("The certificate holds").wait_for()
        with window.expect_download() as saved:
            window.get_by_role("link", name="Synthetic records").click()
        assert (
            saved.value.path().read_bytes()
            == (person.folder / "model-synthetic.csv").read_bytes()
        )
        for name, words in MADE.items():
            with window.context.expect_page() as shown:
                window.get_by_role("link", name=name).click()
            assert words in shown.value.locator("body").inner_text()
        pressed(window, "Done", "Close")
        assert run.wait(PATIENCE) == 0
        assert offered == ["public.csv", "survey.csv"]
    assert complaints == []
    assert all(url.startswith((address, "data:")) for url in requests)
    [account] = person.types("noisegate ledger show --json").json["accounts"]
    assert account["dataset"] == "survey"
    assert account["committed"] == 1


@contextmanager
def read_from(pipe):
    """Holds a pipe open, from which somebody reads by then."""
    while True:
        with suppress(OSError):  # nobody has opened it yet
            file = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            break
        time.sleep(0.1)
    yield
    os.close(file)


def test_an_error_can_be_mended_and_stop_ends_a_command(person, window):
    os.mkfifo(person.folder / "codebook.csv")  # whoever reads it waits for ever
    (person.folder / "schema.toml").touch()
    with started(person) as (run, address):
        window.goto(address)
        pressed(window, "How will you describe the columns", "Next", "dictionary")
        window.get_by_text("schema.toml exists already").wait_for()
        (person.folder / "schema.toml").unlink()
        pressed(window, "This did not work", "Begin again")
        pressed(window, "How will you describe the columns", "Next", "dictionary")
        answered(
            window, {"File of the dictionary": "codebook.csv", "to be predicted": ""}
        )
        window.get_by_text("Running noisegate schema init").wait_for()
        with read_from(person.folder / "codebook.csv"):
            window.get_by_text("Stop …").click()
            window.get_by_role("button", name="Stop").click()
            window.get_by_text("Stopped.").wait_for()
        assert "schema check" not in window.locator("#printed").inner_text()
        assert run.wait(PATIENCE) == 130
        assert "stopped." in run.stderr.read()
    assert person.lies() == {"codebook.csv"}


def test_who_lacks_the_secret_or_comes_by_another_name_is_refused(person):
    def replied(path, host, body=None):
        with closing(http.client.HTTPConnection(here)) as line:
            line.request("POST" if body else "GET", path, body, {"Host": host})
            return line.getresponse()

    with started(person) as (_, address):
        _, _, here, secret, _ = address.split("/")
        own = f"/{secret}/"
        told = replied(f"/{secret}/", here)
        assert told.status == 200
        assert "default-src 'none'" in told.headers["Content-Security-Policy"]
        assert told.headers["Referrer-Policy"] == "no-referrer"
        assert told.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in told.headers
        assert replied(f"{own}../page.py", here).status == 404
        for path, host in [
            ("/", here),
            (own[:-2], here),
            (own, "attacker.example"),
            (own, f"localhost:{here[10:]}"),
        ]:
            assert [replied(path, host, body).status for body in (None, STOP)] == [
                403,
                403,
            ]


def test_a_browser_is_started_with_a_file_that_leads_here_once_and_is_the_users_alone(
    person, window, tmp_path
):
    (shown := tmp_path / "browser").write_text(
        '#!/bin/sh\nprintf %s "$*" > "$0.opened"'
    )
    shown.chmod(0o700)
    for used in (True, False):
        with started(person, str(shown)) as (run, address):
            while not (opened := tmp_path / "browser.opened").is_file() or not (
                command := opened.read_text()
            ):
                time.sleep(0.1)
            opened.unlink()
            door = Path(command.removeprefix("file://"))
            assert command == door.as_uri()
            assert "http://127" in door.read_text()
            assert [path.stat().st_mode & 0o777 for path in (door, door.parent)] == [
                0o600,
                0o700,
            ]
            if used:
                once = re.search(r"http://[^\"]+", door.read_text())[0]
                window.goto(command)
                window.wait_for_url(address)
                assert not door.parent.exists()
                assert window.goto(once).status == 403
            run.send_signal(signal.SIGINT)
            assert run.wait(PATIENCE) == 130
            assert not door.parent.exists()
