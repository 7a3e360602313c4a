"""The daily tables as assets: dates made one by one in a run, the broken ones left out."""

import base64
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from evaluation_pipelines.adapters.ledger.records import TouchedDate
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines_tests.defs.code_location import (
    DAILY_TABLES,
    CodeLocation,
    check_texts,
    day,
    failure_of,
    session_line,
)
from evaluation_pipelines_tests.receiver import Receiver, open_receiver


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The webhook of alerts."""
    with open_receiver() as opened:
        monkeypatch.setenv("EVAL_ALERT_WEBHOOK_URL", opened.url)
        yield opened


def metadata(location: CodeLocation, asset: str, number: int) -> dict[str, object]:
    """Plain values of the metadata of the newest materialization of a date."""
    partition = dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[str(day(number))])
    (record,) = location.instance.fetch_materializations(partition, limit=1).records
    assert record.asset_materialization
    return {name: each.value for name, each in record.asset_materialization.metadata.items()}


def touched(location: CodeLocation, number: int) -> TouchedDate:
    """What the ledger knows of a date."""
    (found,) = (
        each for each in location.workplace.ledger.touched.all() if each.session_date == day(number)
    )
    return found


def part(location: CodeLocation, number: int) -> Path:
    """The file of the first landed part of a date."""
    parts = location.workplace.ledger.parts.current(AGENT_EVENTS_LANDED.name, day(number))
    return location.workplace.lake.root / parts[0].path


def double_a_session(location: CodeLocation, number: int) -> None:
    """Give a date of sessions a row twice, which its rules would never have let through."""
    lake = location.workplace.lake
    sessions = lake.read(AGENT_SESSIONS, [day(number)])
    lake.write(pl.concat([sessions, sessions]), AGENT_SESSIONS, day(number))


def test_a_build_makes_the_three_tables_of_its_date(location: CodeLocation) -> None:
    location.land(0)
    assert location.build(0).success

    assert [location.materialized(each) for each in DAILY_TABLES] == [[day(0)]] * 3
    (score,) = location.workplace.performance().to_dicts()
    assert (score["session_id"], score["session_date"]) == ("s-0", day(0))
    # 2 of 2 calls succeeded: 10; 2 calls a prompt of 5 for full marks: 4; 4 a minute: 10;
    # 300 of 450 tokens from the cache: 6.67; 0.02 USD for 2 calls: 9.
    # 0.30 * 10 + 0.25 * 4 + 0.20 * 10 + 0.15 * 20 / 3 + 0.10 * 9 = 7.9
    assert score["composite"] == pytest.approx(7.9)
    assert touched(location, 0).is_built


def test_a_range_of_dates_is_made_in_one_run(location: CodeLocation) -> None:
    location.land(0, 1, 1, 2, 4)
    result = location.build(0, 3)

    assert result.success
    # Nothing landed on day 3: its tables are there and empty.
    days = [day(number) for number in range(4)]
    assert [location.materialized(each) for each in DAILY_TABLES] == [days] * 3
    assert location.workplace.sessions()["session_date"].to_list() == days[:3]
    assert [
        metadata(location, "agent_sessions", n)["dagster/partition_row_count"] for n in range(4)
    ] == [1, 1, 1, 0]
    built = [each.session_date for each in location.workplace.ledger.touched.all() if each.is_built]
    assert built == days[:3]
    assert location.instance.get_runs_count() == 1


def test_only_the_tables_that_were_selected_are_made(location: CodeLocation) -> None:
    location.land(0)
    assert location.materialize(0, "agent_events").success
    assert [location.materialized(each) for each in DAILY_TABLES] == [[day(0)], [], []]
    assert not touched(location, 0).is_built  # sessions and scores are still missing

    assert location.materialize(0, "agent_sessions", "session_performance").success
    assert [location.materialized(each) for each in DAILY_TABLES] == [[day(0)]] * 3
    assert location.workplace.performance().height == 1


def test_a_check_is_only_reported_for_tables_that_were_made(location: CodeLocation) -> None:
    location.land(0)
    location.build(0)
    result = location.materialize(0, "agent_sessions", "session_performance")
    reported = {
        (each.asset_key.to_user_string(), each.check_name)
        for each in result.get_asset_check_evaluations()
    }

    assert reported == {
        ("agent_sessions", "every_date_was_built"),
        ("agent_sessions", "every_event_is_in_a_session"),
        ("agent_sessions", "keys_are_unique"),
        ("agent_sessions", "sequences_have_no_gaps"),
        ("session_performance", "every_date_was_built"),
        ("session_performance", "every_score_has_its_session"),
        ("session_performance", "keys_are_unique"),
        ("session_performance", "scores_are_in_range"),
    }
    assert all(each.passed for each in result.get_asset_check_evaluations())


def test_dates_are_built_without_checks_where_none_are_selected(location: CodeLocation) -> None:
    location.land(0, 1)
    part(location, 0).write_bytes(b"torn")
    result = location.materialize_without_checks(0, 1)

    assert not result.success
    assert result.get_asset_check_evaluations() == []
    assert [location.materialized(each) for each in DAILY_TABLES] == [[day(1)]] * 3


def test_metadata_show_rows_numbers_a_preview_and_the_path(location: CodeLocation) -> None:
    location.land(0, 0)  # the same line twice
    location.build(0)
    events = metadata(location, "agent_events", 0)

    assert events["dagster/partition_row_count"] == 4
    assert (events["landed"], events["duplicates"]) == (8, 4)
    assert str(events["preview"]).splitlines()[:3] == [
        r"| session\_id | event\_time | event\_name | tool\_name | success | model |",
        "|---|---|---|---|---|---|",
        r"| s\-0 | 2025\-02\-06 12:00:… | user\_prompt |  |  |  |",
    ]
    path = Path(str(events["path"]))
    assert path == location.workplace.lake.partition(AGENT_EVENTS, day(0))
    assert pl.read_parquet(path).height == 4


def test_metadata_of_performance_show_the_composites_as_a_picture(location: CodeLocation) -> None:
    location.land(0)
    location.workplace.land("logs.jsonl", session_line(0, "failing", success="false"), "ab")
    location.workplace.ingest()
    location.build(0)
    shown = metadata(location, "session_performance", 0)

    assert (shown["dagster/partition_row_count"], shown["scored"], shown["partial"]) == (2, 2, 0)
    picture, _, text = str(shown["composites"]).partition("\n\n")
    assert text == "2 of 2 sessions have a composite"
    encoded = picture.partition("base64,")[2].removesuffix(")")
    assert base64.b64decode(encoded).startswith(b"<svg ")
    assert r"| s\-0\#baseline\-1 | 7\.9 | keep | 10\.0 |" in str(shown["preview"])


def test_what_telemetry_says_is_shown_and_never_interpreted(location: CodeLocation) -> None:
    hostile = "<img src=x>|`[a](b)"
    content = session_line(0, hostile, tool_name="<script>alert(1)</script>")
    location.workplace.land("logs.jsonl", content)
    location.workplace.ingest()
    assert location.build(0).success

    for asset in DAILY_TABLES:
        for text in map(str, metadata(location, asset, 0).values()):
            assert "<img" not in text
            assert "<script" not in text
    preview = str(metadata(location, "agent_events", 0)["preview"])
    assert r"&lt;img src=x&gt;\|\`\[" in preview
    assert r"&lt;script&gt;alert\(" in preview
    assert {line.replace(r"\|", "").count("|") for line in preview.splitlines()} == {7}


def test_a_passed_rule_says_what_was_expected_and_found(location: CodeLocation) -> None:
    location.land(0, 1)
    location.build(0, 1)
    check = location.check("session_performance", "every_score_has_its_session")

    assert check.passed
    assert check_texts(check) == {
        "dates_checked": 2,
        "dates_broken": 0,
        "date": "2025-02-07",
        "expected": "1 scores, one for each session window",
        "found": "0 scores without a session, 0 sessions without a score",
    }


def test_a_broken_date_is_left_out_and_the_others_are_scored(location: CodeLocation) -> None:
    location.land(0, 1, 2)
    torn = part(location, 1)
    torn.write_bytes(b"not Parquet at all")
    result = location.build(0, 2)

    assert not result.success
    reason = failure_of(result)
    assert reason.startswith(
        "1 of 3 dates could not be built, the others are published: 2025-02-07: "
    )
    assert str(torn) in reason
    for asset in DAILY_TABLES:
        assert location.materialized(asset) == [day(0), day(2)]
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-2"]
    assert [touched(location, n).is_built for n in range(3)] == [True, False, True]
    assert touched(location, 1).attempts == 1
    assert str(torn) in (touched(location, 1).last_error or "")


def test_a_broken_date_shows_as_a_failed_check_of_the_table_where_it_failed(
    location: CodeLocation,
) -> None:
    location.land(0, 1, 2)
    part(location, 1).write_bytes(b"not Parquet at all")
    location.build(0, 2)
    events = location.check("agent_events", "every_date_was_built")

    assert (events.passed, events.severity) == (False, dg.AssetCheckSeverity.ERROR)
    shown = check_texts(events)
    assert (shown["dates_checked"], shown["dates_broken"]) == (3, 1)
    assert (shown["date"], shown["expected"]) == ("2025-02-07", "built")
    assert str(part(location, 1)) in str(shown["found"])
    # It never came to sessions, and nothing is wrong with those of the other two.
    sessions = location.check("agent_sessions", "every_date_was_built")
    assert sessions.passed
    assert check_texts(sessions)["dates_checked"] == 2


def test_a_date_that_breaks_a_rule_is_left_out_and_its_rows_are_shown(
    location: CodeLocation,
) -> None:
    location.land(0, 1, 2)
    location.build(0, 2)
    scores = location.workplace.lake.partition(SESSION_PERFORMANCE, day(1))
    before = scores.read_bytes()
    double_a_session(location, 1)
    result = location.materialize_range(0, 2, "session_performance")

    assert not result.success
    assert failure_of(result) == (
        "1 of 3 dates could not be built, the others are published: 2025-02-07: RuleBrokenError: "
        "session_performance: keys_are_unique: expected one row per organization_id, session_key, "
        "found 1 keys that several rows share"
    )
    made = [each.partition for each in result.asset_materializations_for_node("daily_tables")]
    assert made == ["2025-02-06", "2025-02-08"]
    assert scores.read_bytes() == before  # the scores of before stay

    check = location.check("session_performance", "keys_are_unique")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert check_texts(check) == {
        "dates_checked": 3,
        "dates_broken": 1,
        "date": "2025-02-07",
        "expected": "one row per organization_id, session_key",
        "found": "1 keys that several rows share",
        "examples": "default, s-1#baseline-1, 2",
    }
    assert not location.check("session_performance", "every_date_was_built").passed
    assert location.check("session_performance", "scores_are_in_range").passed


def test_several_broken_dates_are_all_listed(location: CodeLocation) -> None:
    location.land(0, 1, 2)
    location.build(0, 2)
    double_a_session(location, 0)
    double_a_session(location, 2)
    location.materialize_range(0, 2, "session_performance")
    shown = check_texts(location.check("session_performance", "keys_are_unique"))

    assert (shown["dates_checked"], shown["dates_broken"], shown["date"]) == (3, 2, "2025-02-08")
    assert str(shown["all_broken_dates"]).splitlines() == [
        "| date | found | examples |",
        "|---|---|---|",
        r"| 2025\-02\-06 | 1 keys that several rows share | default, s\-0\#baseline\-1, 2 |",
        r"| 2025\-02\-08 | 1 keys that several rows share | default, s\-2\#baseline\-1, 2 |",
    ]


def test_a_gap_in_a_sequence_warns_and_the_date_is_published(location: CodeLocation) -> None:
    for sequence in (1, 5):  # 2, 3 and 4 never came
        content = session_line(0, second=sequence, event__sequence=sequence)
        location.workplace.land("logs.jsonl", content, "ab")
    location.workplace.ingest()
    assert location.build(0).success

    check = location.check("agent_sessions", "sequences_have_no_gaps")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    shown = check_texts(check)
    assert shown["found"] == "3 missing events in 1 session windows"
    assert shown["examples"] == "s-0#baseline-1, 3"
    assert location.materialized("session_performance") == [day(0)]


def test_the_fourth_failure_parks_a_date_and_tells_people_once(
    location: CodeLocation, receiver: Receiver
) -> None:
    location.land(0, 1)
    torn = part(location, 1)
    torn.write_bytes(b"torn")
    for attempt in range(1, 4):
        assert not location.build(0, 1).success
        assert (touched(location, 1).attempts, touched(location, 1).parked) == (attempt, False)
    assert receiver.texts == []
    assert location.check("agent_events_landed", "no_date_is_parked").passed

    assert not location.build(1).success
    assert (touched(location, 1).attempts, touched(location, 1).parked) == (4, True)
    (alert,) = receiver.texts
    title, reason, advice = alert.splitlines()
    assert title == "session_date 2025-02-07 is parked after 4 attempts"
    assert reason.startswith("agent_events: QueryError: ")
    assert str(torn) in reason
    assert advice == "Mend the cause, then materialize the date once more."
    check = location.check("agent_events_landed", "no_date_is_parked")
    assert not check.passed
    assert check_texts(check)["found"] == "1 parked dates"
    assert str(torn) in str(check_texts(check)["2025-02-07"])


def parked(location: CodeLocation) -> None:
    """Land day 1, break it and let it fail four times, then mend it."""
    location.land(1)
    sound = part(location, 1).read_bytes()
    part(location, 1).write_bytes(b"torn")
    for _ in range(4):
        location.build(1)
    assert touched(location, 1).parked
    part(location, 1).write_bytes(sound)


def test_after_the_cause_is_mended_one_materialization_revives_a_parked_date(
    location: CodeLocation,
) -> None:
    parked(location)
    assert location.materialize(1, *DAILY_TABLES).success

    now = touched(location, 1)
    assert (now.is_built, now.parked, now.attempts, now.last_error) == (True, False, 0, None)
    assert location.workplace.performance().height == 1
    assert location.check("agent_events_landed", "no_date_is_parked").passed
    assert location.check("agent_events", "every_date_was_built").passed


def test_one_table_alone_makes_a_parked_date_due_again(location: CodeLocation) -> None:
    """The click on the one asset that shows the failure."""
    parked(location)
    assert location.materialize(1, "agent_events").success

    now = touched(location, 1)
    assert (now.is_built, now.parked, now.attempts) == (False, False, 0)
    assert location.requested("touched_dates_sensor") == [(day(1), day(1))]


def test_a_parked_date_that_still_fails_stays_parked(location: CodeLocation) -> None:
    parked(location)
    part(location, 1).write_bytes(b"torn again")
    assert not location.materialize(1, *DAILY_TABLES).success

    assert (touched(location, 1).parked, touched(location, 1).attempts) == (True, 5)


def test_the_build_of_a_date_is_repeatable_to_the_byte(location: CodeLocation) -> None:
    location.land(0, 1)
    location.build(0, 1)
    files = {path: path.read_bytes() for path in location.workplace.lake.root.rglob("*.parquet")}
    assert len(files) == 2 + 2 * 3  # landed parts, and three tables of both dates
    location.build(0, 1)

    assert {path: path.read_bytes() for path in files} == files


def test_dates_are_shown_as_older_than_their_input_until_they_are_built_again(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0))
    location.build(0)
    assert location.stale(day(0)) == set()

    location.run_ingest(session_line(0, second=60))
    assert location.stale(day(0)) == {"agent_events"}
    location.build(0)
    assert location.stale(day(0)) == set()


def test_scores_and_sessions_that_do_not_match_fail_the_check_of_the_whole_lake(
    location: CodeLocation,
) -> None:
    assert location.execute("check_lake").success
    name = ("session_performance", "scores_match_sessions")
    assert check_texts(location.check(*name)) == {"found": "no dates yet"}

    location.land(0, 1)
    location.build(0, 1)
    location.execute("check_lake")
    assert location.check(*name).passed

    location.workplace.lake.partition(SESSION_PERFORMANCE, day(1)).unlink()
    location.execute("check_lake")
    check = location.check(*name)
    assert not check.passed
    shown = check_texts(check)
    assert shown["found"] == "1 without the other"
    assert r"s\-1\#baseline\-1" in str(shown["examples"])


def test_unreadable_lines_fail_a_check_after_the_ingest_that_met_them(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0))
    check = location.check("agent_events_landed", "quarantine_share_is_low")
    assert check.passed
    assert check_texts(check)["found"] == "0.00%: 0 of 1"

    location.run_ingest(b"no telemetry\n" * 2 + session_line(1))
    check = location.check("agent_events_landed", "quarantine_share_is_low")
    assert not check.passed
    # 2 of 4 lines
    assert check_texts(check)["found"] == "50.00%: 2 of 4"
    assert check_texts(check)["expected"] == "at most 1.00% of the lines read in the last 24 hours"
