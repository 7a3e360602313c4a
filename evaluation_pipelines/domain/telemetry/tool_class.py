"""What kind of work a tool call is: its tool class."""

import re
import shlex

READING_PROGRAMS = frozenset(
    "cat head tail less more bat nl wc file stat ls dir tree pwd du df".split()
)
SEARCHING_PROGRAMS = frozenset("find fd grep egrep fgrep rg ag ack which locate whereis".split())
ANSWERING_PROGRAMS = frozenset("grep egrep fgrep rg diff cmp test [ which pgrep".split())
"""Programs whose exit code 1 is an answer ("no match", "they differ"), not a failure."""

_HARMLESS_REDIRECTION = re.compile(r"\d?>&\d|[\d&]?>>?\s*/dev/null")
_OPERATORS = frozenset(("|", "||", "&&", ";", "&", "|&", ";;"))


def shell_class(command: str | None) -> str:
    """Class of a shell call: read or search when its first word only does that, else shell.

    A command that redirects its output into a file writes, whatever its first word.
    """
    words = (command or "").split(maxsplit=1)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    kind = (
        "read"
        if program in READING_PROGRAMS
        else "search"
        if program in SEARCHING_PROGRAMS
        else "shell"
    )
    if kind != "shell" and ">" in _HARMLESS_REDIRECTION.sub("", command or ""):
        return "shell"
    return kind


def answers_with_exit_code(command: str | None) -> bool:
    """Whether exit code 1 of ``command`` is an answer: its last simple command decides."""
    lexer = shlex.shlex(command or "", posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # an unclosed quote: fall back on the first word
        tokens = (command or "").split(maxsplit=1)[:1]
    starts = [i + 1 for i, token in enumerate(tokens[:-1]) if token in _OPERATORS]
    last = tokens[starts[-1] if starts else 0] if tokens else ""
    return last.rsplit("/", 1)[-1] in ANSWERING_PROGRAMS
