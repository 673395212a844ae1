"""The page of `noisegate start`: asks the same questions in a browser of this computer, and shows what is printed."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
import time
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from noisegate.discovery.page_server import PageServer
from noisegate.discovery.questions import Asker, Made, Question
from noisegate.errors import NoisegateError

_PATIENCE = 25.0  # seconds for which a browser waits for news
_COLUMNS = "88"
_CONTROL = re.compile(r"(\x1b\[[?0-9;]*[A-Za-z]|[\r\n])")


class Page(Asker):
    """Asks on a page, one question at a time; commands run here, and the page shows what they print."""

    def __init__(self) -> None:
        self.asks, self._files = True, dict[str, Path]()
        self._changed, self._streams = threading.Condition(), ExitStack()
        self._turn, self._number, self._stopped = 1, 0, False
        self._posted: list[str] = []
        self._answers: list[tuple[str, str]] = []
        self._says: list[str] = []
        self._commands: list[tuple[str, _Screen]] = []
        self._shown: dict[str, Any] = {"stage": 0, "status": "Starting …", "ask": None, "over": False}

    def __enter__(self) -> Self:
        self._server = PageServer(self.state, self.told, self._files)
        self._print(
            "The page opens in your browser, on this computer only. If it does not, open this address there:\n\n  "
            f"{self._server.address}\n\nCtrl-C ends it."
        )
        for work in (self._server.serve_forever, partial(webbrowser.open, self._server.once)):
            threading.Thread(target=work, daemon=True).start()
        os.environ["COLUMNS"] = _COLUMNS
        self.command("noisegate start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._streams.close()
        why = str(error) if isinstance(error, NoisegateError) else "If a fit had begun, its epsilon counts as spent."
        ended = f"Stopped. {why}" if error is not None else "Ended."
        self._show(status=f"{ended} This page can be closed.", ask=None, over=True)
        time.sleep(1)  # browsers fetch the last of it
        self._server.shutdown()
        self._server.server_close()

    def stage(self, number: int) -> None:
        """Shows a stage as begun."""
        self._show(stage=number)

    def say(self, text: str) -> None:
        """Shows a paragraph until the next command."""
        self._says.append(text)

    def prompt(self, question: Question, complaint: str = "") -> str:
        """Returns what was sent; nothing means the default, and is asked for again where there is none."""
        typed = self._answers.pop()[1] if complaint else question.default
        near = sorted(path.name for path in Path().iterdir() if path.suffix.lower() in question.files)
        asked = {"asks": question.asks, "says": question.says, "default": typed, "complaint": complaint}
        text: str | None = None
        while text is None:
            text = self._ask(**asked, choices=question.choices, near=near).strip() or question.default
        self._answers.append((question.asks, text))
        return text

    def confirm(self, asks: str, file: str = "") -> bool:
        """Returns whether to go on, asked under the text of the file."""
        shown = {"file": str(Path(file).absolute()), "text": Path(file).read_text("utf-8")} if file else {}
        return self._press("Yes, go on", "No, stop", asks=f"{asks}?", **shown)

    def command(self, text: str) -> None:
        """Shows a command, and from now on what it prints."""
        self._streams.close()
        screen = _Screen(self._news)
        self._streams.enter_context(redirect_stdout(screen))
        self._streams.enter_context(redirect_stderr(screen))
        self._says = []
        self._commands.append((text, screen))
        self._show(status=f"Running {text.partition(' -')[0]} …")

    def end(self, commands: Sequence[str], made: Sequence[Made]) -> None:
        """Offers what was made until the page is closed."""
        self._files |= {str(number): one.path for number, one in enumerate(made)}
        files = [{"name": one.name, "path": str(one.path), "private": one.private} for one in made]
        self._show(stage=4)
        with suppress(KeyboardInterrupt):
            shown = {"files": files, "folder": str(Path.cwd()), "commands": commands}
            self._press("Close", asks="Done: look, and download", **shown)

    def again(self, error: NoisegateError) -> bool:
        """Returns whether to begin again, asked under the error."""
        begins = self._press("Begin again", "End", asks="This did not work", complaint=str(error))
        if begins:
            self._answers, self._says = [], []
            self._show(stage=0)
        return begins

    def _press(self, *buttons: str, **shown: Any) -> bool:
        return self._ask(buttons=buttons, **shown) == buttons[0]

    def _ask(self, **ask: Any) -> str:
        with self._changed:
            self._number, self._posted = self._number + 1, []
            self._show(status="Waiting for your answer.", ask=ask)
            while not (self._posted or self._stopped):
                self._changed.wait(1)  # in parts: on Windows, Ctrl-C is heard between them
            posted = self._posted
            self._show(status="Working …", ask=None)
        if not posted:
            raise KeyboardInterrupt
        return posted[0]

    @contextmanager
    def _news(self) -> Iterator[None]:
        with self._changed:
            yield
            self._turn += 1
            self._changed.notify_all()

    def _show(self, **what: Any) -> None:
        with self._news():
            self._shown |= what

    def state(self, seen: str) -> dict[str, Any]:
        """Returns what the page shows, once it is not the turn that was `seen`."""
        with self._changed:
            self._changed.wait_for(lambda: str(self._turn) != seen, _PATIENCE)
            printed = [(text, screen.text()) for text, screen in self._commands]
            lists = {"answers": self._answers, "says": self._says, "printed": printed}
            return self._shown | lists | {"turn": self._turn, "number": self._number}

    def told(self, sent: Mapping[str, Any]) -> None:
        """Takes the first answer to what is asked now, from whichever window, or stops."""
        with self._news():
            if sent.get("stop"):
                self._stopped = True
                if self._shown["ask"] is None and not self._shown["over"]:
                    _interrupt()
            elif self._shown["ask"] is not None and not self._posted and sent.get("number") == self._number:
                self._posted = [str(sent.get("answer", ""))]


def _interrupt() -> None:
    """Does what Ctrl-C does."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


class _Screen(io.TextIOBase):
    """What a terminal would show, as text; rich moves its bars by erasing lines."""

    def __init__(self, news: Any) -> None:
        self._news, self._lines, self._row = news, [""], 0

    def isatty(self) -> bool:
        """Returns that bars can be shown."""
        return True

    def write(self, text: str) -> int:
        """Takes what is printed."""
        with self._news():
            for part in _CONTROL.split(text):
                if part == "\n":
                    self._row += 1
                    self._lines += [""] * (self._row == len(self._lines))
                elif part.startswith("\x1b") and part.endswith("A"):
                    self._row -= int(part[2:-1] or 1)
                elif part == "\x1b[2K":
                    self._lines[self._row] = ""
                elif part != "\r" and not part.startswith("\x1b"):
                    self._lines[self._row] += part
        return len(text)

    def text(self) -> str:
        """Returns what stands on it."""
        return "\n".join(self._lines).strip("\n")
