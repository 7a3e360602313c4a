"""Lines that the prefilter rejects never belong to the session."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.reader import line_filter, session_ids_of
from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.world import claude, line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"stringValue":"s-1"}', True),
        (b'{"stringValue":"s-1#codesmith-1"}', True),
        (b'{"stringValue":"\\u0073-1"}', True),  # the letter s
        (b'{"stringValue":"s\\u0000-1"}', True),  # NUL, which is removed from every string
        (b'{"stringValue":"\\u001b[0m"}', False),  # a terminal color code
        (b'{"stringValue":"s-2\\n"}', False),
        (b"", False),
    ],
)
def test_a_line_that_contains_the_id_may_belong_to_the_session(
    text: bytes, *, expected: bool
) -> None:
    for key in ("s-1", "s-1#codesmith-1"):
        may_match = line_filter(key)
        assert may_match is not None
        assert may_match(text) is expected


@pytest.mark.parametrize("key", ["", "a/b", 'a"b', "ü", "a b", "5", "-1.5e3", "1e5#m-1", "a\n"])
def test_ids_with_several_json_spellings_have_no_filter(key: str) -> None:
    assert line_filter(key) is None


def test_a_key_can_be_the_id_of_a_session() -> None:
    assert session_ids_of("s#codesmith-1") == {"s#codesmith-1", "s"}
    assert session_ids_of("a#b#c-1") == {"a#b#c-1", "a#b"}
    assert session_ids_of("s") == {"s"}
    assert session_ids_of("#m-1") == {"#m-1"}


ids = st.text("abAB01-_.#eE+/ü\0\"'", min_size=1, max_size=4) | st.integers() | st.floats()


@given(st.lists(ids, min_size=1, max_size=4), st.booleans(), st.integers(0, 3))
def test_rejected_lines_have_no_event_of_the_session(
    sent: list[object], escaped: bool, selected: int
) -> None:
    lines = []
    for name in sent:
        text = line(claude("user_prompt", session__id=name)).decode()
        if escaped:  # every character, as a future collector may do
            spelled = "".join(f"\\u{ord(letter):04x}" for letter in str(name))
            text = text.replace(f'"stringValue": {json.dumps(name)}', f'"stringValue": "{spelled}"')
        lines.append(text.encode())
    sessions = read(*lines).events["session_id"].to_list()
    if not sessions:
        return
    key = sessions[selected % len(sessions)]
    may_match = line_filter(key) or (lambda _: True)
    rejected = [line for line in lines if not may_match(line)]
    assert key not in read(*rejected).events["session_id"].to_list()
