"""What calls ask for and how similar that is, worked out by hand."""

import json
from typing import Any

import pytest

from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    MAX_COMPARED_WORDS,
    Question,
    command_words,
    question,
    texts_in,
)
from evaluation_pipelines.sessions.domain.tool_reports.repeats import similarity


def asked(logged: Any) -> Question:
    """Return what a call with these parameters asks."""
    found = question(logged if isinstance(logged, str) else json.dumps(logged))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"a": "same", "b": 1}, {"b": 1, "a": "same"}, 1.0),
        # By value: one letter, digit or name more is another question.
        ({"path": "src/part_01.py"}, {"path": "src/part_02.py"}, 0.0),
        ({"path": "src/a.py", "limit": 5}, {"path": "src/a.py"}, 0.0),
        ({"content": "one line of text"}, {"content": "one line of texts"}, 0.0),
        ({"a": [1, 2]}, {"a": [2, 1]}, 0.0),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, 1.0),
        ({"a": True}, {"a": 1}, 0.0),
        ({"a": 10}, {"a": 11}, 0.0),
        # Normalized: numbers, paths, addresses, what is not given.
        ({"a": "1"}, {"a": 1.0}, 1.0),
        ({"a": "./src//b/../a.py"}, {"a": "src/a.py"}, 1.0),
        ({"url": "https://EXAMPLE.com/a/#b"}, {"url": "https://example.com/a"}, 1.0),
        ({"url": "https://example.com/a?p=1"}, {"url": "https://example.com/a?p=2"}, 0.0),
        ({"url": "https://[/a"}, {"url": "https://[/b"}, 0.0),
        ({"a": None, "b": False, "c": "", "d": []}, {}, 1.0),
        ({"a": "x", "description": "one", "timeout": 5}, {"a": "x", "description": "two"}, 1.0),
        ({"description": "red chair"}, {"description": "blue table"}, 0.0),  # there is no other
        ({"pattern": "a/b/"}, {"pattern": "a/b"}, 0.0),  # no path
        # Free text: twice the common words over all words, without fillers.
        ({"query": "b c d f g h j k l"}, {"query": "the b c d f g h j k l n?"}, 2 * 9 / 19),
        ({"query": "b c d f g h j k l m"}, {"query": "b c d f g h j k l n"}, 0.0),  # one replaced
        (
            {"query": "select a from t where b and c"},
            {"query": "select a from t where b or c"},
            0.0,
        ),
        ({"query": "parse json quickly"}, {"query": "quickly parse JSON"}, 1.0),
        ({"query": "csv to json"}, {"query": "json to csv"}, 0.0),  # in their order
        ({"query": "see #41"}, {"query": "see #42"}, 0.0),  # names have to be the same
        ({"query": "fix src/a.py now"}, {"query": "now fix ./src/a.py"}, 1.0),
        ({"query": "find getUser soon"}, {"query": "find getTeam soon"}, 0.0),
        # The lowest of several texts: 2 * 2 / 5
        ({"query": "one two", "title": "b c"}, {"query": "one two", "title": "b c d"}, 0.8),
        ({}, {}, 1.0),
    ],
    ids=str,
)
def test_values_are_the_same_or_not_and_free_texts_are_similar(
    one: Any, other: Any, expected: float
) -> None:
    assert similarity(asked(one), asked(other)) == pytest.approx(expected)
    assert similarity(asked(other), asked(one)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("grep -rn  'def x' \"src/\"", "grep def x src -n -r"),
        ("# look\npytest -q 2>&1 | tail -5", "pytest -q | tail -5"),
        ("timeout 60 make \\\n check; make", "make check ; make"),
        ("git log --oneline -5 && ls", "git log --oneline -5 && ls"),
        ("git log --until y --since x", "git log --since x --until y"),
        ("it's cut \"off", "its cut off"),
    ],
)
def test_a_command_is_its_words(command: str, words: str) -> None:
    assert " ".join(command_words(command)) == words


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        ("no JSON at all", ((".", "no JSON at all"),)),
        ('"a text"', ((".", "a text"),)),
        ("[1, 2]", (("..0", "1"), ("..1", "2"))),
        ('{"cut": "sho', ((".", '{"cut": "sho'),)),
        ('{"command": ["bash", "-lc", "ls -l"]}', ((".command", ("ls", "-l")),)),
        ('{"bash_command": "ls", "full_command": "ls -l"}', ((".full_command", ("ls", "-l")),)),
        ("[" * 5000, ((".", "[" * 5000),)),
    ],
    ids=range(7),
)
def test_what_is_logged_is_read_as_values_by_name(logged: str, expected: Any) -> None:
    assert asked(logged).values == expected


def test_values_too_deep_to_read_are_one_value() -> None:
    # Decoding needs a frame of the stack for each level, reading the values more than one.
    assert {len(asked(f"{'[' * deep}1{']' * deep}").values) for deep in range(100, 1100, 25)} == {1}


def test_a_digest_alone_has_no_parameters() -> None:
    digest = {"mcp_server_name": "tracker", "mcp_tool_name": "find"}

    assert question(json.dumps(digest)) is None
    assert question("{}") == Question(())


def test_beginning_and_end_of_a_long_text_are_compared() -> None:
    half = ["same"] * (MAX_COMPARED_WORDS // 2)
    texts = [" ".join([*half, *middle, *half]) for middle in ([], ["from"], ["to"] * 99)]
    whole, one_more, longer = (asked({"prompt": text}) for text in texts)

    assert (whole.is_cut, one_more.is_cut) == (False, True)
    assert [len(question.texts[0]) for question in (whole, longer)] == [MAX_COMPARED_WORDS] * 2


def test_all_texts_in_parameters_are_found_at_any_depth() -> None:
    logged = {"command": ["bash", "-lc", "ls"], "at": {"path": "x"}, "n": 1, "description": "d"}

    assert texts_in(json.dumps(logged)) == ["bash", "-lc", "ls", "x"]
    assert texts_in("plain text") == ["plain text"]
    assert texts_in('["a", "b"]') == ["a", "b"]
