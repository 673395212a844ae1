"""`noisegate start --browser`, for who fears a terminal: a page here, from a bare file to what is handed on."""

import http.client
import os
import re
import shutil
import subprocess
from contextlib import closing, contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.journeys.conftest import SCRIPT, survey

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
KNOWN = {"Approximate number": "2000", "Epsilon": None, "Name of the data set": "survey", "Cap on epsilon": "2"}
FOLDERS = {"Model folder": None, "Held-out real records": None, "Folder of the pages": None}


@contextmanager
def started(person, *options):
    """Yields the process and the address that it prints; the browser that it would open does nothing."""
    env = {**person.env, "BROWSER": "true"}
    line = [str(SCRIPT), "start", "--browser", *options]
    with subprocess.Popen(line, cwd=person.folder, env=env, stderr=subprocess.PIPE, text=True) as run:
        try:
            yield run, next(found[0] for text in run.stderr if (found := re.search(r"http://\S+", text)))
        finally:
            run.kill()


@pytest.fixture
def window():
    if CHROMIUM is None:
        pytest.skip("needs Chromium on PATH; continuous integration installs it with .ci/chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        yield play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]).new_context().new_page()


def answered(page, answers):
    for asks, text in answers.items():
        page.get_by_role("heading", name=asks).wait_for()
        if text is not None:
            page.get_by_label(asks).fill(text)
        page.get_by_role("button", name="Next").click()


def pressed(page, asks, button):
    page.get_by_role("heading", name=asks).wait_for()
    assert not (found := Axe().run(page)).violations_count, found.generate_report()
    page.get_by_role("button", name=button).click()


def test_from_a_bare_file_to_downloads(person, window):
    (person.folder / "survey.csv").write_text(survey(2000))
    (person.folder / "public.csv").write_text(survey(1000, seed=1))
    asked, complaints = [], []
    window.context.on("request", lambda request: asked.append(request.url))
    window.context.on("console", lambda message: complaints.append(message.text))
    with started(person) as (run, address):
        window.goto(address)
        pressed(window, "Which of them", "Next")
        answered(window, {"File of the public": "nowhere.csv"})
        window.get_by_text("'nowhere.csv' does not exist.").wait_for()
        offered = window.locator("#near option").evaluate_all("all => all.map(one => one.value)")
        assert offered == ["public.csv", "survey.csv"]
        answered(window, {"File of the public": "public.csv", "to be predicted": "income"})
        window.get_by_text('levels = ["farmer", "nurse", "teacher"]').wait_for()
        pressed(window, "Is everything in it public", "Yes, go on")
        other = window.context.new_page()
        other.goto(address)
        answered(window, {"Private records": "survey.csv", **KNOWN, **FOLDERS})
        pressed(other, "The fit spends epsilon = 1", "Yes, go on")
        window.set_viewport_size({"width": 500, "height": 900})
        window.emulate_media(color_scheme="dark")
        window.get_by_role("heading", name="Done").wait_for(timeout=60_000)
        assert window.evaluate("document.documentElement.scrollWidth") == 500
        assert "The certificate holds" in window.locator("#printed").inner_text()
        with window.expect_download() as saved:
            window.get_by_role("link", name="Synthetic records").click()
        assert saved.value.path().read_bytes() == (person.folder / "model-synthetic.csv").read_bytes()
        holds = {"Certificate": "# Privacy certificate", "Public page": "ε", "Private page": "do not publish"}
        for name, words in holds.items():
            with window.context.expect_page() as shown:
                window.get_by_role("link", name=name).click()
            assert words in shown.value.locator("body").inner_text()
        pressed(window, "Done", "Close")
        assert run.wait(20) == 0
    assert complaints == [] and all(url.startswith((address, "data:")) for url in asked)
    [account] = person.types("noisegate ledger show --json").json["accounts"]
    assert (account["dataset"], account["committed"]) == ("survey", 1)


def test_an_error_can_be_mended_and_stop_ends_a_command(person, window):
    os.mkfifo(person.folder / "codebook.csv")  # whoever reads it waits for ever
    (person.folder / "schema.toml").touch()
    with started(person) as (run, address):
        window.goto(address)
        window.get_by_label("dictionary").check()
        pressed(window, "Which of them", "Next")
        window.get_by_text("schema.toml is there already").wait_for()
        (person.folder / "schema.toml").unlink()
        pressed(window, "This did not work", "Begin again")
        window.get_by_label("dictionary").check()
        pressed(window, "Which of them", "Next")
        answered(window, {"File of the dictionary": "codebook.csv", "to be predicted": None})
        window.get_by_text("Running noisegate schema init").wait_for()
        window.get_by_text("Stop …").click()
        window.get_by_role("button", name="Stop").click()
        window.get_by_text("Stopped.").wait_for()
        assert "schema check" not in window.locator("#printed").inner_text()
        assert run.wait(20) == 130 and "stopped." in run.stderr.read()
    assert person.lies() == {"codebook.csv"}


def test_who_lacks_the_secret_or_comes_by_another_name_is_refused(person):
    with started(person) as (_, address):
        _, _, here, secret, _ = address.split("/")

        def replied(path, host=here, body=None):
            with closing(http.client.HTTPConnection(here)) as line:
                line.request("GET" if body is None else "POST", path, body, {"Host": host})
                reply = line.getresponse()
                return reply.status, reply.headers

        code, told = replied(f"/{secret}/")
        assert code == 200 and "default-src 'none'" in told["Content-Security-Policy"]
        assert (told["Referrer-Policy"], told["Cache-Control"]) == ("no-referrer", "no-store")
        assert "Access-Control-Allow-Origin" not in told
        stop = '{"stop": true}'
        for path in ("/", f"/{secret[:-1]}/", "/page.js"):
            assert (replied(path)[0], replied(path, body=stop)[0]) == (403, 403)
        for host in ("attacker.example", here.replace("127.0.0.1", "localhost")):
            assert (replied(f"/{secret}/", host)[0], replied(f"/{secret}/answer", host, stop)[0]) == (403, 403)
        assert replied(f"/{secret}/../page.py")[0] == 404
