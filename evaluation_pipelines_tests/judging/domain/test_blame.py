"""Who caused failed calls: sessions, or the endpoint."""

import pytest

from evaluation_pipelines.judging.endpoint.limits import Blame, Suspect, Symptom


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
    found = blame(suspect(1, "faulty"), suspect(2, "silent"), suspect(3, "other"))
    assert found.take_guilty() == []

    found.note_reply(None)
    assert [each.score_id for each in found.take_guilty()] == ["s1", "s2", "s3"]
    assert found.take_guilty() == []
    assert found.settle(is_endpoint_down=True) == ([], [])


def test_three_sessions_with_the_same_rejection_stop_a_run() -> None:
    found = blame(suspect(1, reason="400: bad 1"), suspect(2, reason="400: bad 22"))
    assert found.stop_reason() is None

    found.add(suspect(3, reason="400: bad 333"))
    assert found.stop_reason() == "400: bad 333. 3 sessions got the same answer"
    other = blame(suspect(1), suspect(2), suspect(3, reason="400: else"))
    assert other.stop_reason() is None
    repeated = blame(suspect(1), suspect(1), suspect(1))  # one session with several requests
    assert repeated.stop_reason() is None
    assert repeated.settle(is_endpoint_down=False) == ([suspect(1)] * 3, [])


def test_replies_in_between_do_not_make_several_sessions_with_the_same_rejection_guilty() -> None:
    found = Blame(max_useless=3)
    for number in (1, 2, 3):
        found.add(suspect(number, reason=f"400: no credit (request id req_a{number}Fx)"))
        found.note_reply(None)  # of a request that was sent before
    found.add(suspect(4, reason="400: bad image"))
    found.note_reply(None)

    assert found.take_guilty() == []
    assert "3 sessions got the same answer" in (found.stop_reason() or "")
    failed, due = found.settle(is_endpoint_down=False)
    assert [each.score_id for each in failed] == ["s4"]
    assert [each.score_id for each in due] == ["s1", "s2", "s3"]


@pytest.mark.parametrize(
    "reasons",
    [
        ("400: bad (request 7f3a-11)", "400: bad (request 9c-2)"),
        ("400: bad id=Zm9v0A==", "400: bad id=YmFy1+/8"),
        (f"400: {'words ' * 20} of one", f"400: {'words ' * 20} of another"),
    ],
)
def test_ids_and_the_end_of_a_rejection_do_not_count(reasons: tuple[str, str]) -> None:
    one, two = reasons
    assert suspect(1, reason=one).pattern == suspect(2, reason=two).pattern
    assert suspect(1, reason="400: bad").pattern != suspect(2, reason="400: else").pattern


@pytest.mark.parametrize(
    ("suspects", "is_down", "due"),
    [
        ([suspect(1)], False, []),  # one rejection may be about the session
        ([suspect(1), suspect(2)], False, ["s1", "s2"]),
        ([suspect(1), suspect(2, reason="400: else")], False, []),
        ([suspect(1, "silent", "no answer")], False, ["s1"]),
        ([suspect(1, "faulty", "500")], False, []),
        ([suspect(1, "faulty", "500")], True, ["s1"]),
        ([suspect(1, "faulty", "500: a"), suspect(2, "faulty", "429: b")], False, ["s1", "s2"]),
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
    assert found.stop_reason() == "3 replies in a row were unusable, the last one: cut"
