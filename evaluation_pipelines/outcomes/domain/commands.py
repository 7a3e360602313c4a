"""Calls with tests, and calls with edits: by their tool and shell command."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple, TypeAlias

from evaluation_pipelines.sessions.domain.tool_reports.parameters import shell_command
from evaluation_pipelines.telemetry.domain.tool_calls import joined_commands

TEST_COMMANDS = tuple(
    line.strip()
    for line in """
    pytest
    py.test
    unittest
    tox
    nox
    manage.py test
    npm test
    npm t
    npm run test*
    pnpm test
    pnpm run test*
    yarn test*
    yarn run test*
    bun test
    bun run test*
    deno test
    vitest
    jest
    mocha
    ava
    playwright test
    cypress run
    go test
    gotestsum
    cargo test
    cargo nextest run
    mvn test
    mvn verify
    mvnw test
    mvnw verify
    gradle *test
    gradle check
    gradlew *test
    gradlew check
    sbt test
    dotnet test
    rspec
    rake test*
    rake spec
    rails test
    phpunit
    pest
    composer test
    mix test
    swift test
    flutter test
    dart test
    bazel test
    ctest
    bats
    make test*
    make check*
    just test*
    runTests
    run_tests
    """.strip().splitlines()
)
"""A program or tool, and words that follow it in this order, in which ``*`` is any text."""

_NO_RUN = frozenset("--version --help -h --collect-only --co --listTests --list --fixtures".split())
"""Options with which no test runs."""

_WRAPPERS = tuple(
    tuple(part.split())
    for part in "uv run,poetry run,pipenv run,hatch run,pdm run,rye run,npx,bunx,pnpm exec,"
    "pnpm dlx,yarn exec,bundle exec,python,python3,coverage run,time,env,sudo,nohup,nice,"
    "timeout,command,xvfb-run,stdbuf".split(",")
)
"""Programs that run the one named after them, and their options."""

_EDITORS = frozenset(("tee", "patch", "apply_patch", "mv", "cp"))
_IN_PLACE = re.compile(r"--in-place|-[a-zA-Z]*i")
_GIT_EDITS = frozenset(
    "am apply checkout cherry-pick merge mv pull rebase reset restore revert stash switch".split()
)
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w+)\1")
_HAS_VALUE = re.compile(r"-|\d+[smh]?$|[A-Za-z_]\w*=")
_SCRATCH = re.compile(r"&|/tmp/|/dev/|.*\.(?:log|txt|out)$")
_REDIRECTION = re.compile(r"\d?>{1,2}\|?(.*)")

Patterns: TypeAlias = Mapping[str, Sequence[tuple[str, ...]]]
"""Program or tool -> the words that may follow it."""


class Role(NamedTuple):
    """A call edits, then it runs tests, which ``decide`` whether the call succeeds."""

    edits: bool = False
    tests: bool = False
    decide: bool = False


@cache
def patterns(own: tuple[str, ...] = ()) -> Patterns:
    """Return TEST_COMMANDS and a user's own."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for program, *words in (
        command.split() for command in (*TEST_COMMANDS, *own) if command.strip()
    ):
        found.setdefault(program, []).append(tuple(words))
    return found


def role(tool: str, tool_class: str, parameters: str | None, known: Patterns) -> Role:
    """Return the role of a call.

    Args:
        tool: Name of the tool.
        tool_class: Its class, as in ``agent_events``.
        parameters: Parameters as logged, with the command of a shell call.
        known: Commands that run tests.
    """
    if tool_class in ("edit", "write"):
        return Role(edits=True)
    if tool_class != "shell":
        is_run = _matches([tool.rpartition("__")[2]], known)
        return Role(tests=is_run, decide=is_run)
    return _command_role("" if parameters is None else shell_command(parameters), known)


def _command_role(command: str, known: Patterns) -> Role:
    """Return the role of a shell command: tests before an edit of the same command do not count."""
    parts = joined_commands(_without_heredocs(command))
    is_counting = ("&&", "|") if "pipefail" in command else ("&&",)
    edits = tests = decide = False
    for number, (words, _) in enumerate(parts):
        if _edits(words):
            edits, tests = True, False
        elif _matches(_program(words), known):
            tests = True
            after = [operator for _, operator in parts[number:-1]]
            decide = all(word.strip() in is_counting for word in after)
    return Role(edits, tests, tests and decide)


def _without_heredocs(command: str) -> str:
    """Remove the lines after ``<<WORD`` to one with only that word, if there is one."""
    lines, kept, number = command.split("\n"), list[str](), 0
    stripped = [line.strip() for line in lines]
    last = {line: place for place, line in enumerate(stripped)}
    while number < len(lines):
        kept.append(lines[number])
        number += 1
        for _, word in _HEREDOC.findall(kept[-1]):
            if last.get(word, -1) >= number:
                number = stripped.index(word, number) + 1
    return "\n".join(kept)


def _program(words: list[str]) -> list[str]:
    """Return the program and its words, without its wrappers."""
    while wrapper := next((w for w in _WRAPPERS if tuple(_named(words)[: len(w)]) == w), None):
        words = words[len(wrapper) :]
        while words and _HAS_VALUE.match(words[0]):
            words = words[1:]
    return _named(words)


def _named(words: list[str]) -> list[str]:
    return [words[0].rpartition("/")[2], *words[1:]] if words else []


def _matches(words: list[str], known: Patterns) -> bool:
    if not words or not _NO_RUN.isdisjoint(words):
        return False
    return any(_follow(words[1:], wanted) for wanted in known.get(words[0], ()))


def _follow(words: list[str], wanted: Sequence[str]) -> bool:
    left: Iterator[str] = (word for word in words if word[:1] != "-")
    return all(any(fnmatchcase(word, pattern) for word in left) for pattern in wanted)


def _edits(words: list[str]) -> bool:
    named = _program(words)
    if any(_redirects(named[number:]) for number in range(len(named))):
        return True
    program, others = (named[0], named[1:]) if named else ("", [])
    if program in ("sed", "perl"):
        return any(_IN_PLACE.match(other) for other in others)
    if program == "git":
        return next((other for other in others if other[:1] != "-"), "") in _GIT_EDITS
    return program in _EDITORS and not all(
        _SCRATCH.match(other) for other in others if other[:1] != "-"
    )


def _redirects(words: list[str]) -> bool:
    """Return whether the first of the words redirects into a file other than a log."""
    found = _REDIRECTION.match(words[0])
    if found is None:
        return False
    target = found[1] or (words[1] if len(words) > 1 else "")
    return bool(target) and not _SCRATCH.match(target)
