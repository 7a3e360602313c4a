"""Lines that are left out by their bytes never tell of the session."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.prefilter import mention_of, session_ids_of
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.telemetry.domain.reading import read


@pytest.mark.parametrize(
    ("text", "may"),
    [
        (b'{"stringValue":"s-1"}', True),
        (b'{"stringValue":"s-1#codesmith-1"}', True),
        (b'{"stringValue":"\\u0073-1"}', True),  # the letter s
        (b'{"stringValue":"s\\u0000-1"}', True),  # NUL, which is left out of every text
        (b'{"stringValue":"\\u001b[0m"}', False),  # what programs print in colours
        (b'{"stringValue":"s-2\\n"}', False),
        (b"", False),
    ],
)
def test_a_line_may_tell_of_a_session_that_it_spells(text: bytes, *, may: bool) -> None:
    for key in ("s-1", "s-1#codesmith-1"):
        mention = mention_of(key)
        assert mention is not None
        assert mention(text) is may


@pytest.mark.parametrize("key", ["", "a/b", 'a"b', "ü", "a b", "5", "-1.5e3", "1e5#m-1", "a\n"])
def test_what_json_can_spell_in_many_ways_is_not_looked_for(key: str) -> None:
    assert mention_of(key) is None


def test_a_key_names_a_session_and_may_be_the_id_of_one() -> None:
    assert session_ids_of("s#codesmith-1") == {"s#codesmith-1", "s"}
    assert session_ids_of("a#b#c-1") == {"a#b#c-1", "a#b"}
    assert session_ids_of("s") == {"s"}
    assert session_ids_of("#m-1") == {"#m-1"}


ids = st.text("abAB01-_.#eE+/ü\0\"'", min_size=1, max_size=4) | st.integers() | st.floats()


@given(st.lists(ids, min_size=1, max_size=4), st.booleans(), st.integers(0, 3))
def test_no_event_of_a_session_stands_in_a_line_that_is_left_out(
    sent: list[object], escaped: bool, wanted: int
) -> None:
    lines = []
    for each in sent:
        text = line(claude("user_prompt", session__id=each)).decode()
        if escaped:  # every letter of it, as a collector of tomorrow may
            spelled = "".join(f"\\u{ord(letter):04x}" for letter in str(each))
            text = text.replace(f'"stringValue": {json.dumps(each)}', f'"stringValue": "{spelled}"')
        lines.append(text.encode())
    sessions = read(*lines).events["session_id"].to_list()
    if not sessions:
        return
    key = sessions[wanted % len(sessions)]
    mention = mention_of(key) or (lambda _: True)
    left_out = [each for each in lines if not mention(each)]
    assert key not in read(*left_out).events["session_id"].to_list()
