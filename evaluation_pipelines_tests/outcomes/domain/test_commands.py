"""Which shell commands run tests, which edit, and whose exit code it is."""

import json
import time

import pytest

from evaluation_pipelines.outcomes.domain.commands import patterns, role

_E, _T, _D = "edits", "tests", "decide"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -q tests", (_T, _D)),
        ("cd app && .venv/bin/python -m pytest -x", (_T, _D)),
        ("CI=1 uv run --frozen pytest", (_T, _D)),
        ("timeout 60 npx --yes jest --ci", (_T, _D)),
        ("npm run test:unit -- --watch=false", (_T, _D)),
        ("./gradlew :app:test", (_T, _D)),
        ("mvn -q clean test", (_T, _D)),
        ("make -j4 check", (_T, _D)),
        ("python manage.py test shop", (_T, _D)),
        ("go test ./... && echo fine", (_T, _D)),
        # The exit code is that of another command.
        ("pytest -q | tail -5", (_T,)),
        ("pytest; echo done", (_T,)),
        ("cargo test || true", (_T,)),
        ("set -o pipefail; pytest | tail -5", (_T, _D)),
        # No tests run.
        ("pytest --collect-only", ()),
        ("pip install pytest", ()),
        ("grep -rn pytest .", ()),
        ("echo 'run pytest'", ()),
        ("make build", ()),
        ("npm install", ()),
        # Writing a script runs nothing.
        ("cat > run.sh <<'EOF'\npytest\nEOF", (_E,)),
        ("cat > a.py <<EOF\nx = 1\nEOF\npytest a.py", (_E, _T, _D)),
        ("cat > a <<A > b <<-'B'\npytest\nA\npytest\n\tB\nls", (_E,)),
        ("cat <<EOF\npytest", (_T, _D)),  # its end was not logged
        ("sed -i s/a/b/ a.py && pytest", (_E, _T, _D)),
        ("pytest && git checkout a.py", (_E,)),
        ("perl -pi -e s/a/b/ a.py", (_E,)),
        ("sed -n 1,9p a.py", ()),
        ("pytest > /tmp/out 2>&1", (_T, _D)),
        ("git commit -m x", ()),
        ("verify-all --fast", (_T, _D)),  # the user's own
    ],
)
def test_a_command_runs_tests_or_edits(command: str, expected: tuple[str, ...]) -> None:
    found = role("Bash", "shell", json.dumps({"command": command}), patterns(("verify-all",)))
    assert tuple(name for name in (_E, _T, _D) if getattr(found, name)) == expected


@pytest.mark.slow  # only a clock tells how many steps a regular expression takes
def test_a_long_command_is_read_in_a_second() -> None:
    command = "<<AAAAAAAAAA" + "\n" * 800 + " pytest"
    started = time.process_time()
    found = role("Bash", "shell", json.dumps({"command": command}), patterns())
    assert found.tests
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("tool", "tool_class", "expected"),
    [
        ("Edit", "edit", (_E,)),
        ("runTests", "other", (_T, _D)),
        ("mcp__ide__run_tests", "mcp", (_T, _D)),
        ("Read", "read", ()),
        ("Bash", "shell", ()),  # its command was not logged
    ],
)
def test_a_tool_runs_tests_or_edits(tool: str, tool_class: str, expected: tuple[str, ...]) -> None:
    found = role(tool, tool_class, None, patterns())
    assert tuple(name for name in (_E, _T, _D) if getattr(found, name)) == expected
