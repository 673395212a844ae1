"""`noisegate start`: the whole way for a table, question by question.

::

    interview.toml ──► questions ──► guided ──► the other commands, each shown first
                           │            ▲
                           │ asks       │ answers
                           ▼            │
                    a terminal, or page ── page_server ── page.html in a browser

- `guided`: the verb, and `Guide`, which knows the order of questions and commands.
- `questions`: the questions, how answers are read, and who asks in a terminal.
- `page`: asks on a page instead, and shows there what the commands print.
- `page_server`: serves that page to this computer's browser and to nobody else.
- `interview.toml`, `page.html`, `page.css`, `page.js`: texts, and the page.
"""
