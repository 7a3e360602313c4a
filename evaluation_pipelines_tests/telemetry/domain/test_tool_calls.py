"""Class of shell commands, and the outcome of calls."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.schemas import TOOL_CLASSES
from evaluation_pipelines.telemetry.domain.tool_calls import (
    answers_with_exit_code,
    settle_outcome,
    shell_class,
    simple_commands,
)


@pytest.mark.parametrize(
    ("command", "tool_class"),
    [
        ("cat app.py", "read"),
        ("/bin/cat app.py", "read"),
        ("  head -n 5 a\n", "read"),
        ("tail -f log", "read"),
        ("less a", "read"),
        ("ls -la", "read"),
        ("find . -name '*.py'", "search"),
        ("grep -rn TODO .", "search"),
        ("rg TODO | head", "search"),
        ("python3 app.py", "shell"),
        ("catalogue", "shell"),
        ("cd src && ls", "shell"),
        ("sudo cat a", "shell"),
        ("", "shell"),
        ("   ", "shell"),
        (None, "shell"),
    ],
)
def test_the_first_word_decides_the_class_of_a_command(
    command: str | None, tool_class: str
) -> None:
    assert shell_class(command) == tool_class


@pytest.mark.parametrize(
    "command",
    [
        "cat > app.py <<'EOF'\nprint(1)\nEOF",
        "cat a >> b",
        "grep x f >out",
        "ls 2> errors",
        "ls &> all",
        'grep "x" f > "out file"',
        "cat a 2>&1 > b",
        "ls > /dev/nullish",
    ],
)
def test_a_command_that_writes_to_a_file_has_the_class_shell(command: str) -> None:
    assert shell_class(command) == "shell"


@pytest.mark.parametrize(
    "command",
    [
        "grep x f 2>&1",
        "grep x f 2>/dev/null",
        "grep x f > /dev/null 2>&1",
        "grep x f &>/dev/null",
        "grep x f >&2",
        "grep '=>' app.js",
        'grep "this->that" app.cpp',
        r"grep \>\> f",
        r'grep "a \"> b" f',
    ],
)
def test_harmless_redirections_and_quoted_operators_are_ignored(command: str) -> None:
    assert shell_class(command) == "search"


@pytest.mark.parametrize(
    "command",
    [
        "grep x f",
        "egrep x f",
        "rg x",
        "diff a b",
        "cmp a b",
        "test -f a",
        "[ -f a ]",
        "which python3",
        "/usr/bin/pgrep node",
        "cd src && grep x f",
        "cat f | grep x",
        "make; grep x f",
        "set -e\ngrep x f\n",
        "false || grep x f",
        "grep x f 2>&1",
        "grep x f &> log",
        "grep x f &",
        "! grep x f",
        "(grep x f)",
        "LC_ALL=C LANG=C grep x f",
        "grep ';' f",
        'grep "a|b" f',
        r"grep a\;b f",
        "grep 'unclosed",
        "grep x \\\n  f",
    ],
)
def test_exit_code_1_is_an_answer_when_the_last_command_answers_with_it(command: str) -> None:
    assert answers_with_exit_code(command)


@pytest.mark.parametrize(
    "command",
    [
        "make",
        "grep x f; make",
        "grep x f && make",
        "grep x f | wc -l",
        "grep x f || exit 1",
        "grep x f\npython3 app.py",
        "echo 'grep x f'",
        "echo; 'grep x",
        "git diff",
        "A=grep",
        ";",
        "",
        None,
    ],
)
def test_exit_code_1_of_anything_else_is_a_failure(command: str | None) -> None:
    assert not answers_with_exit_code(command)


@given(st.text() | st.text(alphabet="grepcat |&;<>'\"\\\n()=/", max_size=60))
def test_any_command_has_a_class_and_an_answer(command: str) -> None:
    assert shell_class(command) in TOOL_CLASSES
    assert answers_with_exit_code(command) in (True, False)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", []),
        ("ls -l", [["ls", "-l"]]),
        ("A=1 B=2 make x | tee log", [["make", "x"], ["tee", "log"]]),
        ("cd a && (rm -r b; ls)", [["cd", "a"], ["rm", "-r", "b"], ["ls"]]),
        ("echo 'a; b' && true", [["echo", "_"], ["true"]]),
        ("A=1", []),
    ],
)
def test_a_command_is_split_into_simple_commands(command: str, expected: list[list[str]]) -> None:
    assert simple_commands(command) == expected


@pytest.mark.parametrize(
    ("reported", "source"), [(True, "reported"), (False, "reported"), (None, None)]
)
def test_the_reported_success_is_used_without_an_exit_code(
    reported: bool | None, source: str | None
) -> None:
    row: dict[str, Any] = {"success": reported}
    settle_outcome(row, None, "make")
    assert row == {"success": reported, "success_source": source}


@pytest.mark.parametrize(
    ("reported", "code", "command", "success", "source"),
    [
        (True, 2, "make", False, "exit_code"),
        (False, 2, "make", False, "reported"),
        (None, 2, "make", False, "exit_code"),
        (True, -9, "make", False, "exit_code"),
        # A failure with exit code 0 has another cause.
        (False, 0, "make", False, "reported"),
        (True, 0, "make", True, "reported"),
        # Exit code 1 of grep is an answer.
        (False, 1, "grep x f", True, "exit_code"),
        (True, 1, "grep x f", True, "reported"),
        (True, 1, None, False, "exit_code"),
        (True, 2, "grep x f", False, "exit_code"),
    ],
)
def test_an_exit_code_overrides_the_reported_success(
    reported: bool | None, code: int, command: str | None, success: bool, source: str
) -> None:
    row: dict[str, Any] = {"success": reported}
    settle_outcome(row, code, command)
    assert row == {"success": success, "success_source": source, "exit_code": code}
