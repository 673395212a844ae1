"""The page of `noisegate start`: asks the same questions in a browser of this computer, and shows what is printed."""

import io
import json
import os
import re
import signal
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

from noisegate.app.start.page_server import PageServer
from noisegate.app.start.questions import Asker, Question
from noisegate.errors import NoisegateError

_PATIENCE = 25.0  # seconds for which a browser waits for news
# How rich moves its bars: it erases a line, or goes up to the one before.
_ERASED = re.compile(r"[^\n]*\x1b\[2K|\n[^\n]*\x1b\[1A")
_CONTROL = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\r")


class Page(io.TextIOBase, Asker):
    """Asks on a page, one question at a time, and is the terminal of the commands that run between them."""

    def __init__(self) -> None:
        self.asks, self._files = True, dict[str, Path]()
        self._changed, self._posted, self._stopped = (
            threading.Condition(),
            list[str](),
            False,
        )
        self._shown: dict[str, Any] = {
            "turn": 0,
            "number": 0,
            "ask": None,
            "ended": "",
            "answers": [],
        }
        self._shown["printed"] = [
            ["noisegate start", ""]
        ]  # commands with what they print; what is said has none

    def run(self, guided: Callable[[Asker], Any]) -> None:
        """Opens the page, asks to the end, and offers what was made until the page is closed."""
        server, ended = PageServer(self.state, self.told, self._files), "Ended."
        super().say(
            "The page opens in your browser, on this computer only. If it does not, open this address there:"
        )
        self.line(f"\n  {server.address}\n\nCtrl-C ends it.")
        for work in (
            server.serve_forever,
            partial(webbrowser.open, server.once.as_uri()),
        ):
            threading.Thread(target=work, daemon=True).start()
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # what a script starts beside itself ignores it
        self.console.is_interactive = True  # it moves bars, as this page can show
        os.environ["COLUMNS"] = "88"  # of what is printed, whatever the terminal has
        try:
            with redirect_stdout(self), redirect_stderr(self):
                guide = self._guided(guided)
                self._files |= guide.made()
                files = [(name, str(path)) for name, path in self._files.items()]
                with suppress(KeyboardInterrupt):
                    self._press(
                        "Close",
                        asks="Done",
                        files=files,
                        folder=str(Path.cwd()),
                        commands=guide.ran,
                    )
        except BaseException as error:
            begun = "If a fit had begun, its epsilon counts as spent."
            ended = f"Stopped. {error if isinstance(error, NoisegateError) else begun}"
            raise
        finally:
            self._show(ended=f"{ended} This page can be closed.", ask=None)
            server.door.cleanup()
            time.sleep(1)  # browsers fetch the last of it

    def _guided(self, guided: Callable[[Asker], Any]) -> Any:
        """Returns what asked to the end; after an error it may begin again."""
        while True:
            try:
                return guided(self)
            except NoisegateError as error:
                if not self._press(
                    "Begin again", "End", asks="This did not work", complaint=str(error)
                ):
                    raise
                self._show(answers=[])

    def isatty(self) -> bool:
        """Returns that bars can be shown."""
        return True

    def write(self, text: str) -> int:
        """Shows what a command prints."""
        with self._news():
            last = self._shown["printed"][-1]
            last[1] += text
            while _ERASED.search(last[1]):
                last[1] = _ERASED.sub("", last[1], count=1)
        return len(text)

    def say(self, text: str) -> None:
        """Shows a paragraph."""
        self._show(printed=[*self._shown["printed"], ["", text]])

    def command(self, text: str) -> None:
        """Shows a command, above what it prints."""
        self._show(printed=[*self._shown["printed"], [text, ""]])

    def prompt(self, question: Question, complaint: str = "") -> str:
        """Returns what was sent; nothing means the default."""
        answers = self._shown["answers"]
        typed = answers.pop()[1] if complaint else question.default
        shown = {name: getattr(question, name) for name in ("asks", "says", "choices")}
        near = sorted(
            path.name
            for path in Path().iterdir()
            if path.suffix.lower() in question.files
        )
        text = (
            self._ask(**shown, default=typed, complaint=complaint, near=near).strip()
            or question.default
            or ""
        )
        answers.append((question.asks, text))
        return text

    def confirm(self, asks: str, file: str = "") -> bool:
        """Returns whether to go on, asked under the text of the file."""
        shown = (
            {"file": str(Path(file).absolute()), "text": Path(file).read_text("utf-8")}
            if file
            else {}
        )
        return self._press("Yes, go on", "No, stop", asks=f"{asks}?", **shown)

    def _press(self, *buttons: str, **shown: Any) -> bool:
        return self._ask(buttons=buttons, **shown) == buttons[0]

    def _ask(self, **ask: Any) -> str:
        with self._changed:
            self._posted = []
            self._show(ask=ask, number=self._shown["number"] + 1)
            while not (self._posted or self._stopped):
                self._changed.wait(
                    1
                )  # in parts: on Windows, Ctrl-C is heard between them
            self._show(ask=None)
            if not self._posted:
                raise KeyboardInterrupt
            return self._posted[0]

    @contextmanager
    def _news(self) -> Iterator[None]:
        with self._changed:
            yield
            self._shown["turn"] += 1
            self._changed.notify_all()

    def _show(self, **what: Any) -> None:
        with self._news():
            self._shown |= what

    def state(self, seen: str) -> bytes:
        """Returns what the page shows, as JSON, once it is not the turn that was `seen`."""
        with self._changed:
            self._changed.wait_for(lambda: str(self._shown["turn"]) != seen, _PATIENCE)
            printed = [
                (command, _CONTROL.sub("", text).strip("\n"))
                for command, text in self._shown["printed"]
            ]
            return json.dumps({**self._shown, "printed": printed}).encode()

    def told(self, sent: Mapping[str, Any]) -> None:
        """Takes the first answer to what is asked now, from whichever window, or stops."""
        with self._news():
            asked = self._shown["ask"] is not None and not self._posted
            if sent.get("stop"):
                self._stopped = True
                if not asked and not self._shown["ended"]:
                    _interrupt()
            elif asked and sent.get("number") == self._shown["number"]:
                self._posted = [str(sent.get("answer", ""))]


def _interrupt() -> None:
    """Does what Ctrl-C does."""
    if hasattr(signal, "pthread_kill"):  # which wakes the thread up, too
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
