"""Markdown of others on a terminal.

Cleaning the source is not enough: Markdown has character references (`&#27;`), which become control
characters when it is parsed.  So what the parser answers is cleaned too.  Links are shown with their
address and are no terminal hyperlinks, which could show one address and open another.
"""

from __future__ import annotations

from collections.abc import Iterable

from markdown_it.token import Token
from rich.markdown import Markdown

from herma.cli.terminal_text import clean


class SafeMarkdown(Markdown):
    """Markdown whose text holds nothing that a terminal would obey."""

    def __init__(self, markup: str) -> None:
        super().__init__(clean(markup), code_theme="ansi_dark", hyperlinks=False)
        _make_safe(self.parsed)


def _make_safe(tokens: Iterable[Token]) -> None:
    waiting = list(tokens)
    while waiting:
        token = waiting.pop()
        if token.type == "softbreak":
            # People read what a model wrote line by line as lines.
            token.type = "hardbreak"
        token.content = clean(token.content)
        token.info = clean(token.info)
        token.attrs = {
            name: clean(value) if isinstance(value, str) else value for name, value in token.attrs.items()
        }
        waiting.extend(token.children or ())
