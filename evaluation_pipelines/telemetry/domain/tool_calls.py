"""What kind of work a tool call is: its tool class."""

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
_BETWEEN_COMMANDS = re.compile(r"\|[|&]?|(?<![<>])&{1,2}(?!>)|[;\n]+")
_ASSIGNMENT = re.compile(r"\w+=")


def shell_class(command: str | None) -> str:
    """Class of a shell call: read or search when its first word only does that, else shell.

    A command that redirects its output into a file writes, whatever its first word.
    """
    words = (command or "").split(maxsplit=1)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if program not in READING_PROGRAMS | SEARCHING_PROGRAMS or redirects(command or ""):
        return "shell"
    return "read" if program in READING_PROGRAMS else "search"


def answers_with_exit_code(command: str | None) -> bool:
    """Whether exit code 1 of ``command`` is an answer: its last simple command decides."""
    simple_commands = _BETWEEN_COMMANDS.split(_bare(command or ""))
    programs = [program for each in simple_commands if (program := _program(each))]
    return bool(programs) and programs[-1] in ANSWERING_PROGRAMS


def redirects(command: str) -> bool:
    """Whether a command redirects its output into a file."""
    return ">" in _bare(command)


def simple_commands(command: str) -> list[list[str]]:
    """The words of each command in a shell command, without assignments before it.

    Quoted text is one word, "_".
    """
    found = []
    for each in _BETWEEN_COMMANDS.split(_bare(command)):
        words = each.strip("(){}! \t").split()
        while words and _ASSIGNMENT.match(words[0]):
            del words[0]
        if words:
            found.append(words)
    return found


def _bare(command: str) -> str:
    """The command without what looks like an operator and is none: quoted text, ``2>&1`` ..."""
    return _HARMLESS_REDIRECTION.sub(" ", _QUOTED.sub("_", command))


def _program(simple_command: str) -> str:
    words = simple_command.lstrip("({! \t").split()
    program = next((word for word in words if not _ASSIGNMENT.match(word)), "")
    return program.rsplit("/", 1)[-1]


def settle_outcome(row: dict[str, Any], exit_code: int | None, command: str | None) -> None:
    """Let the exit code of a call decide, and say whose word ``success`` is.

    Args:
        row: Values of ``agent_events`` by column; ``success`` is what the program reported.
            ``success_source``, and where it is shown ``exit_code``, are filled here.
        exit_code: As shown by the record; None where it shows none.
        command: The shell command of the call, where it was logged.
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
