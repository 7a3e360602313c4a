"""``agent-config``: files on standard output, where they belong on standard error."""

import ast
import json
import re
import shlex

import pytest

from evaluation_pipelines.telemetry.domain.dialects.registry import LIBRARIES
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import session

HTTPS = ("--endpoint", "https://eval.example.com/")


def test_one_file_is_printed_as_it_is_and_several_under_their_names(program: Program) -> None:
    one = program("agent-config", "claude-code", *HTTPS, "--key", "epk_1")
    assert (one.code, "/etc/claude-code/managed-settings.json" in one.err) == (0, True)
    env = json.loads(one.out)["env"]
    assert env["OTEL_EXPORTER_OTLP_ENDPOINT"] == "https://eval.example.com"
    several = program("agent-config", "gemini-cli", *HTTPS, "--key", "epk_1").out
    assert several.startswith("# settings.json\n{")
    assert "\n# .env\nOTEL_EXPORTER_OTLP_HEADERS=" in several


def test_the_slash_command_of_claude_code_scores_the_landing_folder(program: Program) -> None:
    ran = program("agent-config", "claude-code", "--command")
    (command,) = re.findall(r"^!`evaluation-pipelines (.*) \$ARGUMENTS`$", ran.out, re.MULTILINE)
    assert ran.out.startswith("---\ndescription: ")
    assert "\nallowed-tools: Bash(evaluation-pipelines score:*)\n---\n" in ran.out
    assert ".claude/commands/" in ran.err
    program.land("logs.jsonl", session("s", masque="Scout"))
    assert program(*shlex.split(command)).out.startswith("masque: Scout\n")


def test_without_an_endpoint_agents_send_to_the_port_of_this_machine(program: Program) -> None:
    ran = program("agent-config", "codex")
    assert (ran.code, 'endpoint = "http://127.0.0.1:4318/v1/logs"' in ran.out) == (0, True)


def test_files_are_private(program: Program) -> None:
    folder = program.folder / "out"
    ran = program("agent-config", "codex", *HTTPS, "--key", "epk_1", "--output", str(folder))
    assert (ran.code, ran.out) == (0, "")
    (file,) = folder.iterdir()
    assert (file.name, file.stat().st_mode & 0o077) == ("config.toml", 0)


def test_what_cannot_work_or_be_safe_is_said(program: Program) -> None:
    readable = program("agent-config", "codex", "--endpoint", "http://eval", "--key", "epk_1")
    assert readable.err.startswith("warning: the key would travel readable")
    local = program("agent-config", "codex", "--endpoint", "http://127.0.0.1:4318", "--key", "k")
    assert "warning" not in local.err
    empty = program("agent-config", "codex", "--endpoint", "")
    assert (empty.code, empty.out) == (2, "")
    assert "--endpoint is empty: write https://eval.example.com" in empty.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("cursor", *HTTPS),
        ("codex", "--command"),
        ("codex", "--endpoint", "eval.example.com"),
        ("codex", "--endpoint", 'https://a"b'),
        ("codex", "--endpoint", "https://eval.example.com/v1/logs"),
        ("codex", *HTTPS, "--key", "a b"),
        ("claude-code", *HTTPS, "--attribute", "team.id"),
        ("claude-code", *HTTPS, "--attribute", "a,b=c"),
    ],
)
def test_what_no_file_can_hold_is_a_usage_error(
    program: Program, arguments: tuple[str, ...]
) -> None:
    ran = program("agent-config", *arguments)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_gets_its_variables_and_code_that_compiles(program: Program, name: str) -> None:
    library = LIBRARIES[name]
    ran = program("agent-config", name, *HTTPS, "--texts")
    variables, _, code = ran.out.partition("# tracing.")
    assert 'OTEL_EXPORTER_OTLP_ENDPOINT="https://eval.example.com"\n' in variables
    assert [name for name in library.texts_on if f"\n{name}=" not in variables] == []
    assert (library.language == "none") == (code == "")
    assert library.packages in ran.err
    if library.language == "python":
        ast.parse(code.partition("\n")[2])


def test_without_texts_a_library_sends_none(program: Program) -> None:
    ran = program("agent-config", "langgraph", *HTTPS)
    assert 'OPENINFERENCE_HIDE_INPUTS="true"' in ran.out
    assert "include_content=False" in program("agent-config", "pydantic-ai", *HTTPS).out
