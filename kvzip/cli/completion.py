"""``completion``: the script for a shell, and the answers to what it asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvzip.cli.bash_line import split
from kvzip.cli.complete import Answer, Candidate, complete, paths
from kvzip.cli.shells import SCRIPTS
from kvzip.errors import OptionError, meant


def completion(root: Any, shell: str, words: Sequence[str] | None) -> None:
    """Print the script for ``shell``; or, given the ``words`` of a line, what may stand at its end."""
    if shell not in SCRIPTS:
        hint = meant(shell, SCRIPTS, f"there are {', '.join(SCRIPTS)}")
        raise OptionError(f"no completion for {shell!a}; {hint}")
    if not words:
        print(SCRIPTS[shell], end="")
        return
    lines = _ANSWERS[shell](root, words)
    if lines:
        print("\n".join(lines))


def _for_bash(root: Any, words: Sequence[str]) -> list[str]:
    """How bash is to treat the words that follow: filenames (which it quotes), nospace or plain (quoted already)."""
    line = split(*(*words, "")[:2])
    answer = Answer(suffixes=()) if line.redirected else complete(root, line.words[1:], line.last)
    begun = line.last[len(answer.prefix) :]
    files = [answer.prefix + path for path in paths(begun, answer)]
    values = [answer.prefix + candidate.value for candidate in answer.candidates]
    if files:
        kept = line.last[: line.kept]
        if line.quote:  # where readline adds the slash, as it leaves the quote open then
            files = [path.removesuffix("/") for path in files]
        return ["filenames", *(value[line.kept :] for value in (*values, *files) if value.startswith(kept))]
    kind = "plain" if all(candidate.whole for candidate in answer.candidates) else "nospace"
    found = [text for value in values if (text := line.insertion(value)) is not None]
    return [kind, *found] if found else []


def _for_zsh(root: Any, words: Sequence[str]) -> list[str]:
    """What begins with a prefix that stays; values with descriptions as ``_describe`` takes them; files' patterns."""
    answer = complete(root, words[1:-1], words[-1])
    lines = ["prefixed" if answer.prefix else "bare"]
    for candidate in answer.candidates:
        value = candidate.value.replace("\\", "\\\\").replace(":", "\\:")
        text = f":{_one_line(candidate)}" if candidate.text else ""
        lines.append(f"{'whole' if candidate.whole else 'begun'}\t{value}{text}")
    if answer.suffixes is not None:
        one = len(answer.suffixes) == 1  # in brackets, one alone would be taken for a glob qualifier
        suffixes = answer.suffixes[0] if one else f"({'|'.join(answer.suffixes)})"
        lines.append(f"files\t{f'*{suffixes}' if answer.suffixes else ''}")
    elif answer.folders:
        lines.append("folders\t")
    return lines if len(lines) > 1 else []


def _for_fish(root: Any, words: Sequence[str]) -> list[str]:
    """Words and files, each perhaps with a description after a tab."""
    answer = complete(root, words[1:-1], words[-1])
    lines = [
        f"{answer.prefix}{candidate.value}" + (f"\t{_one_line(candidate)}" if candidate.text else "")
        for candidate in answer.candidates
    ]
    return lines + [answer.prefix + path for path in paths(words[-1][len(answer.prefix) :], answer)]


def _one_line(candidate: Candidate) -> str:
    return " ".join(candidate.text.split())


_ANSWERS: dict[str, Callable[[Any, Sequence[str]], list[str]]] = {
    "bash": _for_bash,
    "zsh": _for_zsh,
    "fish": _for_fish,
}
