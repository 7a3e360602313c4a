"""What is asked of the scores: of a date, of a session, of the rubric's words, of money."""

from dataclasses import replace

from evaluation_pipelines.adapters.ledger.ledger import Ledger
from evaluation_pipelines.adapters.ledger.score_records import Failure
from evaluation_pipelines.domain.judging.due import PastScore
from evaluation_pipelines.domain.telemetry.times import to_us
from evaluation_pipelines_tests.adapters.ledger.ledger_builders import MARCH_1, MARCH_2, at
from evaluation_pipelines_tests.adapters.ledger.score_builders import (
    DONE,
    HASH,
    ME,
    begun,
    new_score,
)


def test_the_scorings_of_a_session_come_in_the_order_they_were_asked_for(ledger: Ledger) -> None:
    first = begun(ledger)
    ledger.scores.fail(first.score_id, "me", Failure("no", retriable=True), at(seconds=1))
    second = ledger.scores.create(new_score(), at(hours=20))
    ledger.scores.create(new_score(organization_id="other"), at(hours=1))

    of_session = ledger.scores.by_session("acme", "s1#baseline-1")
    assert [each.score_id for each in of_session] == [first.score_id, second.score_id]
    assert ledger.scores.by_session("acme", "s1#baseline-2") == []


def test_dates_have_their_scorings(ledger: Ledger) -> None:
    second = begun(ledger, "s2#baseline-1", session_date=MARCH_2)
    first = begun(ledger, "s1#baseline-1", session_date=MARCH_1)

    assert ledger.scores.dates() == [MARCH_1, MARCH_2]
    assert ledger.scores.on_date(MARCH_1) == [first]
    assert ledger.scores.on_date(MARCH_2) == [second]


def test_the_past_of_some_dates_is_what_decides_what_is_due(ledger: Ledger) -> None:
    failed = begun(ledger)
    ledger.scores.fail(failed.score_id, "me", Failure("HTTP 503", retriable=True), at(seconds=1))
    done = ledger.scores.create(
        new_score(content_hash="content-2", judge_profile_version=2), at(hours=1), ME
    )
    ledger.scores.complete(done.score_id, "me", DONE, at(hours=2))
    begun(ledger, "s2#baseline-1", judge_profile_id="strict")
    begun(ledger, "s3#baseline-1", session_date=MARCH_2)

    assert ledger.scores.past([MARCH_1]) == {
        ("acme", "s1#baseline-1", "default"): [
            PastScore(
                "failed",
                1,
                "content-1",
                HASH,
                retriable=True,
                completed_at=at(seconds=1),
                error_message="HTTP 503",
            ),
            PastScore("completed", 2, "content-2", HASH, completed_at=at(hours=2)),
        ],
        ("acme", "s2#baseline-1", "strict"): [PastScore("in_progress", 1, "content-1", HASH)],
    }
    assert ledger.scores.past([]) == {}


def test_open_scorings_are_those_that_have_not_ended(ledger: Ledger) -> None:
    done = begun(ledger, "s1#baseline-1")
    ledger.scores.complete(done.score_id, "me", DONE, at(seconds=1))
    held = begun(ledger, "s2#baseline-1")
    pending = ledger.scores.create(new_score("s3#baseline-1"), at(seconds=1))

    assert ledger.scores.open_scores() == [held, pending]


def test_scores_made_by_other_words_than_todays_are_obsolete(ledger: Ledger) -> None:
    old, today = "0" * 64, "1" * 64
    for number, (rubric, prompt_hash) in enumerate(
        [("agent", old), ("agent", today), ("incident", today), ("mine", old)]
    ):
        score = begun(ledger, f"s{number}", rubric=rubric, prompt_hash=prompt_hash)
        ledger.scores.complete(score.score_id, "me", DONE, at(seconds=number))
    begun(ledger, "s9", rubric="agent", prompt_hash=old)  # under way: not a score yet

    def obsolete(**prompt_hashes: str) -> set[str]:
        return {each.session_key for each in ledger.scores.obsolete(prompt_hashes)}

    assert obsolete(agent=today, incident=today, mine=old) == {"s0"}
    # The words of "incident" are those that "agent" has now; there is no rubric "mine" any more.
    assert obsolete(agent=today, incident=old) == {"s0", "s2", "s3"}
    assert obsolete() == {"s0", "s1", "s2", "s3"}


def test_events_can_be_followed(ledger: Ledger) -> None:
    first = begun(ledger, "s1#baseline-1")
    seen = ledger.scores.events_after(0)
    assert [each.session_key for each in seen] == ["s1#baseline-1"] * 2
    ledger.scores.complete(first.score_id, "me", replace(DONE, total_score=0), at(seconds=1))

    (news,) = ledger.scores.events_after(seen[-1].event_id)
    assert (news.type, news.score_id, news.session_id) == (
        "scoring.completed",
        first.score_id,
        "s1",
    )
    assert (news.total_score, news.timestamp_us) == (0, to_us(at(seconds=1)))
