"""Ids are the same for the same thing, and different for different things."""

from uuid import UUID

from evaluation_pipelines.reputation.domain.signals import (
    identity_id,
    session_event_id,
    signal_event_id,
    unknown_identity,
)
from evaluation_pipelines.schemas import REPUTATION_SCORES
from evaluation_pipelines_tests.reputation.reputation_signals import at


def test_ids_stay_what_they_were_when_signals_were_loaded_for_the_first_time() -> None:
    # Other ids would count everything that was ever loaded a second time.
    assert identity_id("default", "scout") == UUID("e46c5aa6-a599-520d-b532-61260bd10c33")
    assert session_event_id("default", "s#baseline-1") == UUID(
        "21340b0f-0a24-5c4c-ad2e-24fe5a340191"
    )


def test_parts_of_a_name_cannot_be_moved_from_one_to_the_next() -> None:
    ids = {
        identity_id("a", "bc"),
        identity_id("ab", "c"),
        session_event_id("a", "bc"),
        signal_event_id("a", "bc"),
        signal_event_id("a", "b", "c"),
    }
    assert len(ids) == 5


def test_an_identity_without_signals_has_every_column_of_the_table() -> None:
    record = unknown_identity("who", at("2026-11-20T12:00:00"))
    assert list(record) == REPUTATION_SCORES.schema.names()
    assert {name: value for name, value in record.items() if value != 0} == {
        "identity_id": "who",
        "computed_at": at("2026-11-20T12:00:00"),
        "score_7d_ago": None,
        "score_30d_ago": None,
        "overall_observed": None,
        "categories_observed": [],
    }
