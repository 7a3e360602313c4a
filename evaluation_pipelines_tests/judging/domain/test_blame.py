"""Who caused failed calls: sessions, or the endpoint."""

import pytest

from evaluation_pipelines.judging.domain.blame import Blame, Suspect, Symptom


def suspect(number: int, symptom: Symptom = "rejected", reason: str = "400: bad") -> Suspect:
    """Return a suspect that may be tried again."""
    return Suspect(f"s{number}", symptom, reason, retriable=True)


def blame(*suspects: Suspect) -> Blame:
    """Return the blame after some failed calls."""
    found = Blame(max_useless=3)
    for each in suspects:
        found.add(each)
    return found


def test_a_later_reply_shows_that_the_sessions_are_guilty() -> None:
    found = blame(suspect(1), suspect(2, "silent"))
    assert found.take_guilty() == []

    found.note_reply(None)
    assert [each.score_id for each in found.take_guilty()] == ["s1", "s2"]
    assert found.take_guilty() == []
    assert found.settle(is_endpoint_down=True) == ([], [])


def test_three_sessions_with_the_same_rejection_stop_a_run() -> None:
    found = blame(suspect(1, reason="400: bad 1"), suspect(2, reason="400: bad 22"))
    assert found.stop_reason() is None

    found.add(suspect(3, reason="400: bad 333"))
    assert found.stop_reason() == "400: bad 333; 3 sessions got the same answer"
    other = blame(suspect(1), suspect(2), suspect(3, reason="400: else"))
    assert other.stop_reason() is None
    with_reply = blame(suspect(1), suspect(2))
    with_reply.note_reply(None)
    with_reply.add(suspect(3))
    assert with_reply.stop_reason() is None


@pytest.mark.parametrize(
    ("suspects", "is_down", "due"),
    [
        ([suspect(1)], False, []),  # one rejection may be about the session
        ([suspect(1), suspect(2)], False, ["s1", "s2"]),
        ([suspect(1), suspect(2, reason="400: else")], False, []),
        ([suspect(1, "silent", "no answer")], False, ["s1"]),
        ([suspect(1, "faulty", "500")], False, []),
        ([suspect(1, "faulty", "500")], True, ["s1"]),
        ([suspect(1, "other", "too long"), suspect(2, "other", "too long")], True, []),
    ],
)
def test_without_a_reply_the_endpoint_is_blamed_for_silence_and_for_what_is_alike(
    suspects: list[Suspect], is_down: bool, due: list[str]
) -> None:
    failed, still_due = blame(*suspects).settle(is_endpoint_down=is_down)

    assert [each.score_id for each in still_due] == due
    assert {each.score_id for each in failed} == {each.score_id for each in suspects} - {*due}


def test_silence_after_a_reply_is_the_fault_of_the_session() -> None:
    found = Blame(max_useless=3)
    found.note_reply(None)
    found.add(suspect(1, "silent"))

    assert found.settle(is_endpoint_down=False) == ([suspect(1, "silent")], [])


def test_useless_replies_stop_a_run_only_in_a_row() -> None:
    found = Blame(max_useless=3)
    for why in ("empty", "empty", None, "empty", "cut"):
        found.note_reply(why)
        assert found.stop_reason() is None

    found.note_reply("cut")
    assert found.stop_reason() == "3 replies in a row were of no use, the last one: cut"
