"""What pages and terminal show of a session: its measures and its lost calls."""

import json

from evaluation_pipelines.judging.domain.prompt.sanitize import shown_texts
from evaluation_pipelines.reporting.domain.session_facts import dimensions, lost_calls


def test_dimensions_that_are_not_built_are_none() -> None:
    assert dimensions(None) == []


def test_calls_beyond_the_first_hundred_are_counted() -> None:
    call = {"call": 7, "tool": "Bash", "parameters": "secret", "error": "text"}
    (found,) = lost_calls({"failures": [call] * 102}, None)
    assert (found.heading, len(found.lines), found.more) == ("Failed", 100, 2)
    assert found.lines[0] == (7, "Bash", "", "")
    loop = {"first_call": 3, "tool": None, "parameters": None}
    (found,) = lost_calls({"loops": [loop], "repeats": None}, shown_texts(()))
    assert found.lines == ((3, "", "", ""),)


def test_lost_calls_are_shown_without_secrets() -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    parameters = json.dumps({"command": f"curl -H 'x-api-key: {key}'"})
    call = {"call": 1, "tool": "Bash", "parameters": parameters, "error": f"refused: {key}"}
    (found,) = lost_calls({"failures": [call]}, shown_texts(()))
    ((_, _, shown, error),) = found.lines
    assert "curl" in shown
    assert "refused" in error
    assert key not in shown + error
