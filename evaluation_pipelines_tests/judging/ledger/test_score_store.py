"""Scorings from creation to completion, on each database."""

from dataclasses import fields, replace
from datetime import datetime
from socket import gethostname
from typing import Any

import pytest
import sqlalchemy as sa

from evaluation_pipelines.judging.ledger.errors import (
    ScoreEndedError,
    ScoreLeaseLostError,
    ScoringOpenError,
    UnknownScoreError,
)
from evaluation_pipelines.judging.ledger.score_records import Failure, Lease
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas.judge_score import LoggedTurn, Score
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerConflictError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import SESSION_SCORES
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.judging.ledger.score_builders import (
    DONE,
    ME,
    PROMPT_FACTS,
    YOU,
    new_score,
    started,
    turn,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import NOON, at

NOON_US = 1_772_366_400_000_000
"""2026-03-01 12:00 UTC: 20 513 days of 86 400 s and 12 h since 1970."""


def events_of(ledger: Ledger, score: Score) -> list[tuple[str, int, object]]:
    """Return type, seconds after noon and detail of each event."""
    return [
        (
            each.type,
            (each.timestamp_us - NOON_US) // 1_000_000,
            each.phase or each.total_score or each.error_message,
        )
        for each in ScoreStore(ledger).events(score.score_id)
    ]


def test_the_columns_of_the_table_are_the_fields_of_a_score() -> None:
    assert {each.name for each in SESSION_SCORES.c} == {each.name for each in fields(Score)}


def test_a_request_waits_as_pending(ledger: Ledger) -> None:
    score = ScoreStore(ledger).create(new_score(), NOON)

    assert score == ScoreStore(ledger).get(score.score_id)
    assert (score.status, score.attempt, score.scored_at_us) == ("pending", 1, NOON_US)
    assert (score.started_at_us, score.lease_owner, score.turn_log) == (None, None, ())
    assert (score.criteria_scores, score.failure_tags, score.redactions) == (None, None, None)
    assert score.is_open
    assert events_of(ledger, score) == []


def test_a_scoring_goes_from_start_to_completion(ledger: Ledger) -> None:
    score = ScoreStore(ledger).create(new_score(**PROMPT_FACTS), NOON, ME)
    assert (score.status, score.lease_owner) == ("in_progress", "me")
    assert score.lease_expires_at_us == NOON_US + 60_000_000

    ScoreStore(ledger).log_turn(
        score.score_id, "me", turn("score-1", at(seconds=2)), None, "identifying_missing_tools"
    )
    ScoreStore(ledger).log_turn(score.score_id, "me", turn("missing-tools", at(seconds=4)))
    done = ScoreStore(ledger).complete(score.score_id, "me", DONE, at(seconds=5))

    assert done == ScoreStore(ledger).get(score.score_id)
    assert (done.status, done.total_score, done.failure_tags) == (
        "completed",
        64,
        ["incomplete_evidence"],
    )
    assert done.criteria_scores == {"logical_flow": 16, "consistency": 16}
    assert (done.redactions, done.truncated, done.injection_suspected) == (
        {"email": 2},
        True,
        False,
    )
    # Two replies with 1,000 input, 600 cached, 200 output tokens, 0.01 USD and 2 s each.
    assert (done.input_tokens, done.cached_tokens, done.output_tokens) == (2_000, 1_200, 400)
    assert done.judge_cost_usd == pytest.approx(0.02)
    assert done.latency_ms == 4_000.0
    assert (done.started_at_us, done.completed_at_us) == (NOON_US, NOON_US + 5_000_000)
    assert done.booked_at_us == NOON_US + 4_000_000
    assert (done.lease_owner, done.lease_expires_at_us, done.error_message) == (None, None, None)
    assert [each.turn for each in done.turn_log] == ["score-1", "missing-tools"]
    assert events_of(ledger, score) == [
        ("scoring.started", 0, None),
        ("scoring.progress", 0, "analyzing_methodology"),
        ("scoring.progress", 2, "identifying_missing_tools"),
        ("scoring.completed", 5, 64),
    ]


def test_a_failed_scoring_has_a_reason_and_says_whether_it_is_retriable(ledger: Ledger) -> None:
    score = started(ledger)
    failed = ScoreStore(ledger).fail(
        score.score_id, "me", Failure("HTTP 400: too long", retriable=False), at(seconds=3)
    )

    assert (failed.status, failed.error_message) == ("failed", "HTTP 400: too long")
    assert failed.retriable is False
    assert (failed.completed_at_us, failed.lease_owner) == (NOON_US + 3_000_000, None)
    assert events_of(ledger, score)[-1] == ("scoring.failed", 3, "HTTP 400: too long")


def test_the_database_refuses_a_second_open_scoring(ledger: Ledger) -> None:
    """Not only the store: the table has a constraint."""
    started(ledger)
    with reading(ledger.engine) as connection:
        row = dict(connection.execute(sa.select(SESSION_SCORES)).mappings().one())
    another = sa.insert(SESSION_SCORES).values({**row, "score_id": "2", "status": "pending"})

    with pytest.raises(LedgerConflictError), writing(ledger.engine) as connection:
        connection.execute(another)


@pytest.mark.parametrize(
    "change",
    [
        {"organization_id": "other"},
        {"session_key": "s2#baseline-1"},
        {"judge_profile_id": "strict"},
        {"judge_model": "judge-2"},
    ],
    ids=str,
)
def test_another_organization_session_profile_or_model_is_another_scoring(
    ledger: Ledger, change: dict[str, Any]
) -> None:
    started(ledger)

    assert ScoreStore(ledger).create(replace(new_score(), **change), NOON).status == "pending"


def test_an_open_scoring_blocks_others_of_any_content_and_version(
    ledger: Ledger,
) -> None:
    started(ledger)

    with pytest.raises(
        ScoringOpenError, match=r"s1#baseline-1 of acme .* Use the result of that scoring"
    ):
        ScoreStore(ledger).create(
            replace(new_score(), content_hash="content-2", judge_profile_version=2), NOON
        )


def test_an_ended_scoring_allows_the_next_one(ledger: Ledger) -> None:
    first = started(ledger)
    ScoreStore(ledger).fail(first.score_id, "me", Failure("endpoint down", retriable=True), NOON)
    second = started(ledger)
    ScoreStore(ledger).complete(second.score_id, "me", DONE, NOON)
    third = started(ledger)
    grown = replace(new_score(), content_hash="content-2", judge_model="judge-2")

    # Only earlier failures of the same content count.
    assert [each.attempt for each in (first, second, third)] == [1, 2, 2]
    assert ScoreStore(ledger).create(grown, NOON).attempt == 1


def test_a_creator_with_an_outdated_count_is_refused(ledger: Ledger) -> None:
    """Two runs list the same sessions; a session that one has finished must not be scored again."""
    other = ScoreStore(ledger).create(new_score(), NOON, YOU, known_scorings=0)
    ScoreStore(ledger).complete(other.score_id, "you", DONE, NOON)

    with pytest.raises(ScoringOpenError, match="or was a moment ago"):
        ScoreStore(ledger).create(new_score(), NOON, ME, known_scorings=0)
    assert ScoreStore(ledger).create(new_score(), NOON, ME, known_scorings=1).attempt == 1


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_nothing_leaves_a_terminal_status(ledger: Ledger, end: str) -> None:
    score, store = started(ledger), ScoreStore(ledger)
    if end == "completed":
        ended = store.complete(score.score_id, "me", DONE, NOON)
    else:
        ended = store.fail(score.score_id, "me", Failure("no", retriable=True), NOON)
    message = rf"{score.score_id} of session s1#baseline-1 .* it is {end}, which is final"

    with pytest.raises(ScoreEndedError, match=message):
        store.complete(score.score_id, "me", DONE, NOON)
    with pytest.raises(ScoreEndedError, match=message):
        store.fail(score.score_id, "me", Failure("again", retriable=False), NOON)
    with pytest.raises(ScoreEndedError, match=message):
        store.log_turn(score.score_id, "me", turn())
    with pytest.raises(ScoreEndedError, match=message):
        store.leave(score.score_id, "me", NOON)
    with pytest.raises(ScoreEndedError, match=message):
        store.claim(score.score_id, YOU, at(days=1))
    store.release("me")
    assert store.renew(ME, NOON) == 0
    assert store.get(score.score_id) == ended


def test_an_unknown_scoring_raises_an_error(ledger: Ledger) -> None:
    for use in (
        lambda: ScoreStore(ledger).get("none"),
        lambda: ScoreStore(ledger).claim("none", ME, NOON),
        lambda: ScoreStore(ledger).log_turn("none", "me", turn()),
        lambda: ScoreStore(ledger).complete("none", "me", DONE, NOON),
    ):
        with pytest.raises(UnknownScoreError, match="no scoring none"):
            use()


def test_a_pending_scoring_is_claimed_once_and_starts_then(ledger: Ledger) -> None:
    score = ScoreStore(ledger).create(new_score(), NOON)
    claimed = ScoreStore(ledger).claim(score.score_id, ME, at(seconds=10))

    assert (claimed.status, claimed.started_at_us) == ("in_progress", NOON_US + 10_000_000)
    with pytest.raises(ScoreLeaseLostError, match="was not claimed: me holds its lease"):
        ScoreStore(ledger).claim(score.score_id, YOU, at(seconds=69))
    assert [each[0] for each in events_of(ledger, score)] == ["scoring.started", "scoring.progress"]


_GONE = f"{gethostname()}:4194304:gone"  # above the largest process id


@pytest.mark.parametrize(
    ("owner", "when", "is_reopened"),
    [
        ("elsewhere:1:x", at(seconds=59.9), False),
        ("elsewhere:1:x", at(seconds=60), True),
        (_GONE, at(seconds=1), True),
        (f"{gethostname()}:1:x", at(seconds=1), False),
        ("batch:1", at(seconds=1), False),
    ],
)
def test_a_scoring_that_no_process_works_on_is_pending_again(
    ledger: Ledger, owner: str, when: datetime, is_reopened: bool
) -> None:
    store = ScoreStore(ledger)
    score = store.create(new_score(), NOON, Lease(owner, 60))
    store.log_turn(score.score_id, owner, turn())
    store.reopen_abandoned(when)

    found = store.get(score.score_id)
    assert found.turn_log == (turn(),)
    held = (found.status, found.lease_owner, found.takeovers)
    assert held == (("pending", None, 1) if is_reopened else ("in_progress", owner, 0))
    assert store.leases() == ([] if is_reopened else [(owner, NOON_US + 60_000_000)])


@pytest.mark.parametrize(("when", "works"), [(at(seconds=59.9), False), (at(seconds=60), True)])
def test_a_lease_can_be_taken_over_when_it_has_expired(
    ledger: Ledger, when: datetime, works: bool
) -> None:
    score = started(ledger)
    ScoreStore(ledger).log_turn(score.score_id, "me", turn())
    if not works:
        with pytest.raises(ScoreLeaseLostError):
            ScoreStore(ledger).claim(score.score_id, YOU, when)
        return
    claimed = ScoreStore(ledger).claim(score.score_id, YOU, when)

    # The replies and the start time are kept.
    assert claimed.turn_log == (turn(),)
    assert (claimed.lease_owner, claimed.started_at_us) == ("you", NOON_US)
    assert [each[0] for each in events_of(ledger, score)] == ["scoring.started", "scoring.progress"]
    with pytest.raises(ScoreLeaseLostError, match="not changed by me: you holds its lease"):
        ScoreStore(ledger).log_turn(score.score_id, "me", turn("missing-tools"))


def test_an_expired_lease_can_be_renewed_until_another_owner_takes_it(ledger: Ledger) -> None:
    score = started(ledger)
    assert not score.is_leased(to_us(at(seconds=60)))

    assert ScoreStore(ledger).renew(ME, at(seconds=90)) == 1
    renewed = ScoreStore(ledger).get(score.score_id)
    assert renewed.lease_expires_at_us == NOON_US + 150_000_000
    assert renewed.is_leased(to_us(at(seconds=149)))


def test_an_owner_renews_and_releases_only_its_leases(ledger: Ledger) -> None:
    mine = [started(ledger, f"s{number}#baseline-1") for number in range(3)]
    yours = ScoreStore(ledger).create(new_score("s9#baseline-1"), NOON, YOU)
    ScoreStore(ledger).complete(mine[2].score_id, "me", DONE, NOON)

    assert ScoreStore(ledger).renew(ME, at(seconds=30)) == 2
    ScoreStore(ledger).leave(mine[0].score_id, "me", NOON)
    assert ScoreStore(ledger).renew(ME, at(seconds=30)) == 1
    ScoreStore(ledger).release("me")
    assert ScoreStore(ledger).renew(ME, at(seconds=30)) == 0
    assert ScoreStore(ledger).get(yours.score_id) == yours
    # A released scoring is still open and can be claimed immediately.
    assert ScoreStore(ledger).claim(mine[0].score_id, YOU, at(seconds=1)).lease_owner == "you"


def test_prompt_facts_are_stored_with_the_claim_of_a_pending_scoring(
    ledger: Ledger,
) -> None:
    score = ScoreStore(ledger).create(new_score(), NOON)
    claimed = ScoreStore(ledger).claim(score.score_id, ME, NOON, PROMPT_FACTS)

    assert claimed == ScoreStore(ledger).get(score.score_id)
    assert (claimed.content_level, claimed.redactions) == ("full", {"email": 2})
    assert claimed.truncated is True


def test_takeovers_are_counted_and_released_leases_are_not(ledger: Ledger) -> None:
    score, store = ScoreStore(ledger).create(new_score(), NOON), ScoreStore(ledger)
    assert store.claim(score.score_id, ME, NOON).takeovers == 0
    assert store.claim(score.score_id, YOU, at(seconds=61)).takeovers == 1
    store.release("you")
    assert store.claim(score.score_id, ME, at(seconds=62)).takeovers == 1


def test_a_sum_is_unknown_if_one_part_is_unknown(ledger: Ledger) -> None:
    score, store = started(ledger), ScoreStore(ledger)
    store.log_turn(score.score_id, "me", turn("score-1", cost_usd=None))
    store.log_turn(score.score_id, "me", turn("score-2", cached_tokens=None))
    store.log_turn(score.score_id, "me", turn("score-3"))

    logged = store.get(score.score_id)
    assert (logged.judge_cost_usd, logged.cached_tokens) == (None, None)
    assert (logged.input_tokens, logged.output_tokens) == (3_000, 600)


def test_a_turn_has_one_reply(ledger: Ledger) -> None:
    score = started(ledger)
    ScoreStore(ledger).log_turn(score.score_id, "me", turn())

    with pytest.raises(ValueError, match=r"score-1 .* has its reply already"):
        ScoreStore(ledger).log_turn(score.score_id, "me", turn(text="another"))
    assert ScoreStore(ledger).get(score.score_id).turn_log == (turn(),)


def test_texts_are_stored_unchanged(ledger: Ledger) -> None:
    score, text = started(ledger), "Grüße, \N{PILE OF POO} 'quoted' \"twice\"\n```fence"
    ScoreStore(ledger).log_turn(score.score_id, "me", turn(text=text))
    (logged,) = ScoreStore(ledger).get(score.score_id).turn_log

    assert isinstance(logged, LoggedTurn)
    assert logged.text == text
