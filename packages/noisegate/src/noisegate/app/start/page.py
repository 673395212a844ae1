"""Asks the questions of `noisegate start` on a page in a browser of this computer.

The interview runs in the main thread, and the server of the page in others. They share
one `_PageState`, under one lock::

    interview                    state                      browser
      prompt, confirm ──► question ──► turn + 1 ──────► GET state?seen=TURN
      (waits)                                            shows the form
                    ◄── answer ◄────────────────────── POST answer
      show_command, write ──► printed ─► turn + 1 ────► GET state?seen=TURN

While a command runs, the page stands in for its terminal: what it prints is shown.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from noisegate.app.cli.console import ERR, say
from noisegate.app.start.page_server import PageServer
from noisegate.app.start.questions import Asker, GuideQuestion, print_line
from noisegate.errors import NoisegateError

_WAIT_SECONDS = 25.0  # for which a request for news stays open
_LAST_FETCH_SECONDS = 1  # in which browsers fetch the last state
_COLUMNS = 88  # of what commands print

# How rich moves its bars: it erases a line, or goes up to the one before. The match is
# the control sequence with all that it takes away: of "Fitting 10 %\x1b[2KFitting 20 %"
# it is "Fitting 10 %\x1b[2K".
_ERASED = re.compile(r"[^\n]*\x1b\[2K|\n[^\n]*\x1b\[1A")
# All other sequences, such as colours, and carriage returns: they show nothing here.
_CONTROL = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\r")


@dataclass(frozen=True, kw_only=True)
class _Form:
    """What the page asks now, as `page.js` shows it.

    Attributes:
        title: The question.
        help: What is to be known of it, or "".
        choices: All possible answers; empty for any text.
        default: The answer that stands in the field; None for none.
        suggestions: Likely answers, such as files in the folder.
        complaint: Why the answer before could not be taken, or "".
        buttons: Titles of buttons, which are the answers; None for a field and "Next".
        file: Path of a file that is to be read first; None for none.
        file_text: Its text.
        results: Titles and paths of files that can be fetched; None before the end.
        folder: Where they lie.
        commands: Commands that repeat all of it.
    """

    title: str
    help: str = ""
    choices: Sequence[str] = ()
    default: str | None = None
    suggestions: Sequence[str] = ()
    complaint: str = ""
    buttons: Sequence[str] | None = None
    file: str | None = None
    file_text: str = ""
    results: Sequence[tuple[str, str]] | None = None
    folder: str = ""
    commands: Sequence[str] = ()


@dataclass
class _Printed:
    """A command with what it printed; or a paragraph, which is of no command ("")."""

    command: str
    text: str


@dataclass
class _PageState:
    """All that the page shows.

    The interview alone changes the form, the answers and what was printed. The threads
    of the server only read them, so each change is made under the page's lock.

    Attributes:
        turn: Counts the changes, so that a browser can wait for the next one.
        number: Counts the forms, so that no answer is taken for that to another one,
            as where two windows answer, or one sends its answer twice.
        form: What is asked now; None while a command runs.
        ended: How the interview ended; "" before.
        answers: Each question so far with its answer, in order. An answer that could
            not be taken is the last one, until it is asked again.
        printed: What was printed so far.
    """

    turn: int = 0
    number: int = 0
    form: _Form | None = None
    ended: str = ""
    answers: list[tuple[str, str]] = field(default_factory=list)
    printed: list[_Printed] = field(
        default_factory=lambda: [_Printed("noisegate start", "")]
    )


class _Finished(Protocol):
    """An interview that went the whole way; see `guided.Guide`."""

    commands: list[str]

    def results(self) -> dict[str, Path]:
        """Returns the files that may be fetched, by title."""
        ...


class Page(io.TextIOBase):
    """Asks on a page, one question at a time; an `Asker`.

    It is a stream too: the terminal of the commands that run between the questions.
    """

    def __init__(self) -> None:
        self.can_ask = True
        self._changed = threading.Condition()  # guards what follows
        self._state = _PageState()
        self._answer: str | None = None
        self._is_stopped = False
        self._results: dict[str, Path] = {}  # what may be fetched, by title

    def run(self, interview: Callable[[Asker], _Finished]) -> None:
        """Opens the page, asks to the end, and offers the results until it is closed.

        Args:
            interview: Goes the whole way with an asker, and returns the guide.
        """
        server = PageServer(self.wait_for_state, self.receive, self._results)
        say(
            "\nThe page opens in your browser, on this computer only. If it does not, "
            "open this address there:"
        )
        print_line(f"\n  {server.address}\n\nCtrl-C ends it.")
        _start_thread(server.serve_forever)
        _start_thread(webbrowser.open, server.one_time_file.as_uri())
        # What a script starts beside itself ignores Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Bars move on the page, and lines are as wide as it, whatever the terminal is.
        ERR.is_interactive = True
        os.environ["COLUMNS"] = str(_COLUMNS)

        ended = "Ended."
        try:
            with redirect_stdout(self), redirect_stderr(self):
                guide = self._run_until_done(interview)
                self._offer_results(guide)
        except NoisegateError as error:
            ended = f"Stopped. {error}"
            raise
        except BaseException:
            ended = "Stopped. If a fit had begun, its epsilon counts as spent."
            raise
        finally:
            with self._change() as state:
                state.ended = f"{ended} This page can be closed."
                state.form = None
            server.folder.cleanup()
            time.sleep(_LAST_FETCH_SECONDS)

    def _run_until_done(self, interview: Callable[[Asker], _Finished]) -> _Finished:
        """Runs an interview; after an error, again if the user wants to.

        Again is from the first question. What the commands printed stays on the page;
        what they wrote and spent stays too, and their errors say so.

        Raises:
            NoisegateError: the error, if the user ends it.
        """
        while True:
            try:
                return interview(self)
            except NoisegateError as error:
                form = _Form(
                    title="This did not work",
                    complaint=str(error),
                    buttons=("Begin again", "End"),
                )
                if self._ask(form) != "Begin again":
                    raise
                # The first question begins without a complaint, see `prompt`.
                with self._change() as state:
                    state.answers = []

    def _offer_results(self, guide: _Finished) -> None:
        """Offers the results for download, until the page is closed or stopped.

        All is done by then, so a stop is no error here.
        """
        self._results.update(guide.results())
        form = _Form(
            title="Done",
            buttons=("Close",),
            results=[(title, str(path)) for title, path in self._results.items()],
            folder=str(Path.cwd()),
            commands=guide.commands,
        )
        with suppress(KeyboardInterrupt):
            self._ask(form)

    # --- As a terminal. ---

    def isatty(self) -> bool:
        """Returns that bars can be shown."""
        return True

    def write(self, text: str) -> int:
        r"""Shows what a command prints; lines that it erases are taken away.

        Each text is added to what was shown last, so that a sequence is found also
        where it erases what was written in an earlier call. Example: after "Fitting 10
        %", the text "\x1b[2KFitting 20 %" leaves "Fitting 20 %".

        Returns:
            The number of characters in `text`, as streams do.
        """
        with self._change() as state:
            last = state.printed[-1]
            last.text += text
            # One at a time: what the first takes away may bring the next together.
            while _ERASED.search(last.text):
                last.text = _ERASED.sub("", last.text, count=1)
        return len(text)

    # --- As an asker. ---

    def say(self, text: str) -> None:
        """Shows a paragraph."""
        self._print(_Printed("", text))

    def show_command(self, command: str) -> None:
        """Shows a command, above what it will print."""
        self._print(_Printed(command, ""))

    def _print(self, printed: _Printed) -> None:
        """Shows a command or a paragraph below all others."""
        with self._change() as state:
            state.printed.append(printed)

    def prompt(self, question: GuideQuestion, complaint: str = "") -> str:
        """Asks a question once; an empty answer stands for the default.

        The answer is listed on the page at once, before the caller has parsed it. If it
        cannot be taken, the caller asks again with a complaint: the answer is removed
        from the list and stands in the field, to be corrected.

        An emptied field means the question's own default then too, and not the refused
        answer, which would be refused again. Example, of a question with the default
        4::

            complaint             field    typed    returned    listed
            ""                    4        0.5      0.5         0.5
            "0.5 is not from …"   0.5      (empty)  4           4

        Args:
            question: The question.
            complaint: Why the answer before could not be taken, or "". Only after a
                call with the same question: its answer is the last of the list.

        Returns:
            The answer without surrounding blanks; "" if there is no default.

        Raises:
            KeyboardInterrupt: if the page was stopped instead. A refused answer is off
                the list then.
        """
        shown_default = question.default
        if complaint:
            shown_default = self._remove_last_answer()
        suggestions = sorted(
            path.name
            for path in Path().iterdir()
            if path.suffix.lower() in question.file_endings
        )
        form = _Form(
            title=question.text,
            help=question.help,
            choices=question.choices,
            default=shown_default,
            suggestions=suggestions,
            complaint=complaint,
        )
        answer = self._ask(form).strip() or question.default or ""
        self._list_answer(question, answer)
        return answer

    def _remove_last_answer(self) -> str:
        """Takes the last answer off the list, and returns it.

        The list is never empty here: a complaint is about an answer that `prompt`
        listed, and the list is emptied only where an interview begins again. The turn
        is not counted, since the form that follows is a change anyway.
        """
        with self._changed:
            _, answer = self._state.answers.pop()
        return answer

    def _list_answer(self, question: GuideQuestion, answer: str) -> None:
        """Lists an answer; the page shows it with the next change."""
        with self._changed:
            self._state.answers.append((question.text, answer))

    def confirm(self, text: str, file: str = "") -> bool:
        """Asks whether to continue, below the text of a file if there is one.

        The answer is not listed: it is no answer that repeats the interview.
        """
        form = _Form(
            title=f"{text}?",
            buttons=("Yes, continue", "No, stop"),
            file=str(Path(file).absolute()) if file else None,
            file_text=Path(file).read_text("utf-8") if file else "",
        )
        return self._ask(form) == "Yes, continue"

    def _ask(self, form: _Form) -> str:
        """Shows a form, and waits for its answer.

        Returns:
            The answer. If a stop came right after it, the answer still counts, and
            `receive` interrupts what follows.

        Raises:
            KeyboardInterrupt: if the page was stopped instead, now or in a form before.
        """
        with self._changed:
            self._show_form(form)
            while self._answer is None and not self._is_stopped:
                # In parts: on Windows, Ctrl-C is heard between them.
                self._changed.wait(1)
            with self._change() as state:
                state.form = None
            if self._answer is None:
                raise KeyboardInterrupt
            return self._answer

    def _show_form(self, form: _Form) -> None:
        """Shows a form, which has no answer yet.

        All three change under one lock: an answer to the form before, which comes
        later, has another number and is dropped.
        """
        with self._change() as state:
            self._answer = None
            state.form = form
            state.number += 1

    # --- For the server. ---

    def wait_for_state(self, seen_turn: str) -> bytes:
        """Returns what the page shows, once it has changed or some seconds are over.

        Args:
            seen_turn: The turn that the browser shows already; "" for none.

        Returns:
            The state as JSON, without control characters of terminals.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: str(self._state.turn) != seen_turn, _WAIT_SECONDS
            )
            content = asdict(self._state)
        for printed in content["printed"]:
            printed["text"] = _CONTROL.sub("", printed["text"]).strip("\n")
        return json.dumps(content).encode()

    def receive(self, message: Mapping[str, Any]) -> None:
        """Takes the first answer to what is asked now, from whichever window, or stops.

        A second answer, one to an earlier form, and one after the end change nothing.
        A stop ends whoever waits for an answer, or interrupts the command that runs, as
        Ctrl-C does (`test_stop_right_after_an_answer_is_heard_before_what_follows`).

        Args:
            message: As `page.js` sends it: `number` of the form and `answer`, or
                `stop`.
        """
        with self._change() as state:
            is_waiting = state.form is not None and self._answer is None
            if message.get("stop"):
                self._is_stopped = True
                # Whoever waits for an answer looks whether it is stopped. A signal
                # beside it would interrupt a second time, in the clean-up.
                if not is_waiting and not state.ended:
                    _interrupt_main_thread()
            elif is_waiting and message.get("number") == state.number:
                self._answer = str(message.get("answer", ""))

    @contextmanager
    def _change(self) -> Iterator[_PageState]:
        """Lends the state for a change, of which waiting threads are told.

        The turn is counted after the change, and not where the block raises. The lock
        may be held already by the same thread.
        """
        with self._changed:
            yield self._state
            self._state.turn += 1
            self._changed.notify_all()


def _start_thread(target: Callable[..., Any], *arguments: Any) -> None:
    """Runs a function beside the interview; it does not hold up its end."""
    threading.Thread(target=target, args=arguments, daemon=True).start()


def _interrupt_main_thread() -> None:
    """Does what Ctrl-C does."""
    if hasattr(signal, "pthread_kill"):
        # Also wakes the thread where it waits.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
