"""Calls that change something, so that an equal call after them is no repeat."""

import json
from typing import Any

import pytest

from evaluation_pipelines.sessions.domain.tool_reports.calls import changes_something


def shell(command: object) -> bool:
    """Return whether a shell command changes something."""
    return changes_something("shell", "Bash", json.dumps({"command": command}))


def test_edits_and_writes_change_something_and_other_tool_classes_nothing() -> None:
    classes = ("edit", "write", "read", "search", "web", "agent", "other", "shell")
    changing = [name for name in classes if changes_something(name, "Whatever", None)]
    assert changing == ["edit", "write"]


@pytest.mark.parametrize(
    "command",
    [
        "rm -r build",
        "/bin/rm x",
        "cd src && mv a b",
        "FORCE=1 cp a b",
        "sudo -E mkdir x",
        "timeout 5 touch x",
        "sed -i s/a/b/ x",
        "sed -ni s/a/b/ x",
        "sed --in-place s/a/b/ x",
        "perl -pi -e s/a/b/ x",
        "git commit -m 'a > b'",
        "git -C repo checkout main",
        "npm install",
        "yarn add left-pad",
        "pip install -U x",
        "docker compose up -d",
        "kubectl apply -f x",
        "make > log",
        "echo x >> file",
        "cat > x <<'END'\ntext\nEND",
        "(kill 5)",
        ["bash", "-lc", "rm x"],
        ["rm", "x"],
    ],
    ids=str,
)
def test_these_commands_change_something(command: object) -> None:
    assert shell(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "pytest -q",
        "make check",
        "python3 app.py",
        "python3 app.py 2>&1 > /dev/null",
        "grep -n 'rm x' notes",
        "echo 'a > b'",
        "sed -n 5p x",
        "git status",
        "git diff --stat",
        "git log -p install",
        "npm test",
        "npm run build",
        "cargo test add_works",
        "docker ps",
        "sudo",
        "sudo && echo rm",
        ["bash", "-lc", "pytest"],
        ["pytest", "rm.py"],
        5,
    ],
    ids=str,
)
def test_these_commands_are_not_known_to_change_anything(command: object) -> None:
    assert not shell(command)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("rm x", True),
        ('"rm x"', True),
        ('{"cmd": "rm x"}', True),
        ('{"full_command": "rm x", "bash_command": "rm"}', True),
        ('{"other": "rm x"}', False),
    ],
)
def test_the_command_is_found_under_the_names_that_agents_use(
    parameters: str, expected: Any
) -> None:
    assert changes_something("shell", "shell", parameters) is expected


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("mcp__github__create_issue", True),
        ("mcp__files__writeFile", True),
        ("mcp__tracker__find_issue", False),
        ("mcp__settings__get_value", False),
        ("create_ticket", True),
        ("mcp__update__list", False),
    ],
)
def test_an_mcp_tool_changes_something_if_its_name_says_so(tool: str, expected: Any) -> None:
    assert changes_something("mcp", tool, None) is expected
