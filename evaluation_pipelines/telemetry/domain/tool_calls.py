"""Tool calls: the class of a tool, and whether a call succeeded.

A call that returned an error or a non-zero exit code failed, whatever the program reports. The
exception is exit code 1 of a command that answers with it ("no match", "they differ").
"""

import re
from typing import Any

READING_PROGRAMS = frozenset(
    "cat head tail less more bat nl wc file stat ls dir tree pwd du df".split()
)
SEARCHING_PROGRAMS = frozenset("find fd grep egrep fgrep rg ag ack which locate whereis".split())
ANSWERING_PROGRAMS = frozenset("grep egrep fgrep rg diff cmp test [ which pgrep".split())
"""Programs whose exit code 1 is an answer ("no match", "they differ"), not a failure."""

_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_HARMLESS_REDIRECTION = re.compile(r"\d?>&\d|[\d&]?>>?\s*/dev/null\b")
_BETWEEN_COMMANDS = re.compile(r"(\|[|&]?|(?<![<>])&{1,2}(?!>)|[;\n]+)")
_ASSIGNMENT = re.compile(r"\w+=")


def shell_class(command: str | None) -> str:
    """Return the class of a shell call: read or search if its first word only does that.

    A command that redirects its output into a file has the class shell for any first word.
    """
    words = (command or "").split(maxsplit=1)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if program not in READING_PROGRAMS | SEARCHING_PROGRAMS or redirects(command or ""):
        return "shell"
    return "read" if program in READING_PROGRAMS else "search"


def answers_with_exit_code(command: str | None) -> bool:
    """Return True if exit code 1 of ``command`` is an answer: its last simple command decides."""
    simple_commands = _BETWEEN_COMMANDS.split(_bare(command or ""))[::2]
    programs = [
        program for simple_command in simple_commands if (program := _program(simple_command))
    ]
    return bool(programs) and programs[-1] in ANSWERING_PROGRAMS


def redirects(command: str) -> bool:
    """Return True if a command redirects its output into a file."""
    return ">" in _bare(command)


def simple_commands(command: str) -> list[list[str]]:
    """Return the words of each simple command, without leading assignments.

    Quoted text is one word, "_".
    """
    return [words for words, _ in joined_commands(command)]


def joined_commands(command: str) -> list[tuple[list[str], str]]:
    """Return the words of each simple command, and the operator after it: nothing at the end."""
    found = []
    pieces = _BETWEEN_COMMANDS.split(_bare(command))
    for text, operator in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        words = text.strip("(){}! \t").split()
        while words and _ASSIGNMENT.match(words[0]):
            del words[0]
        if words:
            found.append((words, operator))
    return found


def _bare(command: str) -> str:
    """Remove what looks like an operator and is none: quoted text, ``2>&1`` ..."""
    return _HARMLESS_REDIRECTION.sub(" ", _QUOTED.sub("_", command))


def _program(simple_command: str) -> str:
    words = simple_command.lstrip("({! \t").split()
    program = next((word for word in words if not _ASSIGNMENT.match(word)), "")
    return program.rsplit("/", 1)[-1]


def settle_outcome(row: dict[str, Any], exit_code: int | None, command: str | None) -> None:
    """Apply the exit code of a call, and record the source of ``success``.

    Args:
        row: Values of ``agent_events`` by column; ``success`` is what the program reported.
            Sets ``success_source`` and, if known, ``exit_code``.
        exit_code: Exit code of the record; None if it has none.
        command: Shell command of the call, if it was logged.
    """
    reported = row.get("success")
    row["success_source"] = None if reported is None else "reported"
    if exit_code is None:
        return
    row["exit_code"] = exit_code
    verdict = reported if exit_code == 0 else exit_code == 1 and answers_with_exit_code(command)
    if verdict != reported:
        row["success"] = verdict
        row["success_source"] = "exit_code"
