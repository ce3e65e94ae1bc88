"""A command line as bash hands it to completion: cut into words as bash would, and words put back into it.

Readline replaces what stands behind the last of COMP_WORDBREAKS (":" and "=" are among them) or behind a quote that
is still open, not the whole word.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_BARE = "_@%+=:,./-^"
_IN_DOUBLE = '"\\$`'


@dataclass
class Line:
    """The words before the cursor, the last as it is begun; ``kept`` is how much of it readline leaves alone.

    quote: the quote that is open at the cursor. redirected: the last word is a file to read from or write to.
    """

    words: list[str] = field(default_factory=list)
    last: str = ""
    kept: int = 0
    quote: str = ""
    redirected: bool = False

    def insertion(self, value: str) -> str | None:
        """What readline is to put in place of what it replaces, so that the last word becomes ``value``."""
        if not value.startswith(self.last[: self.kept]):
            return None
        text = value[self.kept :]
        if self.quote == "'":
            return text.replace("'", "'\\''")
        if self.quote == '"':
            return "".join(f"\\{c}" if c in _IN_DOUBLE else c for c in text)
        return "".join(c if c.isalnum() or c in _BARE else f"\\{c}" for c in text)


def split(text: str, breaks: str) -> Line:
    """The part of a line before the cursor."""
    line = Line()
    begun = escaped = False
    for c in text:
        if escaped:
            line.last += c if not line.quote or c in _IN_DOUBLE else f"\\{c}"
            escaped = False
        elif c == "\\" and line.quote != "'":
            begun = escaped = True
        elif line.quote:
            if c == line.quote:
                line.quote = ""
                line.kept = 0
            else:
                line.last += c
        elif c in "\"'":
            line.quote, begun = c, True
            line.kept = len(line.last)
        elif c.isspace() or c in "<>":
            _end_word(line, begun, c)
            begun = False
        else:
            line.last += c
            begun = True
            if c in breaks:
                line.kept = len(line.last)
    return line


def _end_word(line: Line, begun: bool, c: str) -> None:
    """A word is over; the target of a redirection is none of the command's."""
    if begun and not line.redirected and not (c in "<>" and line.last.isdigit()):
        line.words.append(line.last)
    if begun or c in "<>":
        line.redirected = c in "<>"
    line.last, line.kept = "", 0
