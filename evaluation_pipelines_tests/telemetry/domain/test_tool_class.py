"""What a shell command does, as far as its text tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.schemas import TOOL_CLASSES
from evaluation_pipelines.telemetry.domain.tool_calls import (
    answers_with_exit_code,
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
def test_the_first_word_tells_whether_a_command_only_looks(
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
def test_a_command_that_writes_to_a_file_does_not_only_look(command: str) -> None:
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
def test_what_only_looks_like_a_file_being_written_is_none(command: str) -> None:
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
def test_a_command_is_taken_apart_into_simple_ones(command: str, expected: list[list[str]]) -> None:
    assert simple_commands(command) == expected
