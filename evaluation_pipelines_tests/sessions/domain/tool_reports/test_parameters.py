"""Similarity of the parameters of two calls, worked out by hand."""

import json
from typing import Any

import pytest

from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    MAX_COMPARED_CHARACTERS,
    read_parameters,
    texts_in,
)
from evaluation_pipelines.sessions.domain.tool_reports.similarity import is_similar, similarity


def alike(one: Any, other: Any) -> float:
    """Return the similarity of two logged parameters."""
    read = [
        read_parameters(each if isinstance(each, str) else json.dumps(each))
        for each in (one, other)
    ]
    assert read[0] is not None
    assert read[1] is not None
    return similarity(read[0], read[1])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"a": "same", "b": 1}, {"b": 1, "a": "same"}, 1.0),
        # fuzz.ratio: twice the common characters over all characters, 2 * 3 / 8.
        ({"a": "abcd"}, {"a": "abce"}, 0.75),
        ({"a": "abcd"}, {"a": "wxyz"}, 0.0),
        # The mean over the union of names: (1 + 0.75) / 2.
        ({"a": "same", "b": "abcd"}, {"a": "same", "b": "abce"}, 0.875),
        # A name that only one has is 0: (1 + 0) / 2, and (1 + 0 + 0) / 3.
        ({"a": "same", "b": "x"}, {"a": "same"}, 0.5),
        ({"a": "same", "b": "x"}, {"a": "same", "c": "x"}, 1 / 3),
        # Values other than texts are equal or not.
        ({"a": [1, 2]}, {"a": [1, 2]}, 1.0),
        ({"a": [1, 2]}, {"a": [2, 1]}, 0.0),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, 1.0),
        ({"a": 10}, {"a": 11}, 0.0),
        ({"a": "1"}, {"a": 1}, 0.0),
        ({"a": True}, {"a": 1}, 0.0),
        ({"a": None}, {"a": None}, 1.0),
        ({"a": None}, {}, 0.0),
        # Volatile names do not count, whether they differ or one is missing.
        ({"a": "x", "description": "one"}, {"a": "x", "description": "two"}, 1.0),
        ({"a": "x", "timeout": 5}, {"a": "x"}, 1.0),
        # Two calls without parameters are equal.
        ({}, {}, 1.0),
        ({}, {"description": "only"}, 1.0),
        ({"a": ""}, {"a": ""}, 1.0),
        ({"a": ""}, {"a": "x"}, 0.0),
    ],
    ids=str,
)
def test_similarity_is_the_mean_over_the_union_of_names(
    one: Any, other: Any, expected: float
) -> None:
    assert alike(one, other) == pytest.approx(expected)
    assert alike(other, one) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # 2 * 9 / 20 = 0.9
        ({"a": "abcdefghij"}, {"a": "abcdefghix"}),
        # (1 + 2 * 4 / 10) / 2 = (1 + 0.8) / 2
        ({"a": "x", "b": "abcde"}, {"a": "x", "b": "abcdx"}),
        # (1 + 1 + 2 * 7 / 20) / 3 = 2.7 / 3, which floats make 0.9000000000000001 or less
        ({"a": "x", "b": "y", "c": "abcdefghij"}, {"a": "x", "b": "y", "c": "abcdefgxyz"}),
        # Nine of ten names.
        ({str(n): n for n in range(10)}, {str(n): n for n in range(9)}),
    ],
    ids=str,
)
def test_nine_tenths_are_enough(one: Any, other: Any) -> None:
    assert alike(one, other) == pytest.approx(0.9)
    assert is_similar(alike(one, other))


def test_less_than_nine_tenths_is_not_enough() -> None:
    # 2 * 8 / 18 = 0.889
    assert not is_similar(alike({"a": "abcdefghi"}, {"a": "abcdefghx"}))


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        ("no JSON at all", {"": (True, "no JSON at all")}),
        ('"a text"', {"": (True, "a text")}),
        ("[1, 2]", {"": (False, "[1,2]")}),
        ('{"cut": "sho', {"": (True, '{"cut": "sho')}),
        ('{"a": {"c": 1, "b": 2}}', {"a": (False, '{"b":2,"c":1}')}),
        ('{"bash_command": "ls", "full_command": "ls -l"}', {"full_command": (True, "ls -l")}),
        ("[" * 5000, {"": (True, "[" * 5000)}),
    ],
)
def test_what_is_logged_is_read_as_values_by_name(logged: str, expected: Any) -> None:
    assert read_parameters(logged) == expected


def test_a_digest_alone_has_no_parameters() -> None:
    digest = {"mcp_server_name": "tracker", "mcp_tool_name": "find"}

    assert read_parameters(json.dumps(digest)) is None
    assert read_parameters("{}") == {}


def test_beginning_and_end_of_a_long_text_are_compared() -> None:
    half = "a" * (MAX_COMPARED_CHARACTERS // 2)

    assert alike({"a": f"{half}b{half}"}, {"a": f"{half}c{half}"}) == 1.0
    assert alike({"a": f"b{half}{half}"}, {"a": f"c{half}{half}"}) < 1.0
    assert alike({"a": f"{half}{half}b"}, {"a": f"{half}{half}c"}) < 1.0
    # Limited by the lengths: 2 * 1000 / (1000 + 3000)
    assert alike({"a": half * 2}, {"a": half * 6}) == 0.5


def test_all_texts_in_parameters_are_found_at_any_depth() -> None:
    logged = {"command": ["bash", "-lc", "ls"], "at": {"path": "x"}, "n": 1, "description": "d"}

    assert texts_in(json.dumps(logged)) == ["bash", "-lc", "ls", "x"]
    assert texts_in("plain text") == ["plain text"]
    assert texts_in('["a", "b"]') == ["a", "b"]
