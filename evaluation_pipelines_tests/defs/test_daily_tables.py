"""The daily tables as assets: the dates of a run, their metadata and their checks."""

from datetime import date
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from evaluation_pipelines.defs.metadata import page_link
from evaluation_pipelines.reporting.domain.charts import histogram_svg
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.defs.code_location import (
    DAILY_TABLES,
    CodeLocation,
    check_texts,
    day,
    session_line,
    svg_of,
)
from evaluation_pipelines_tests.defs.date_failures import queued_dates
from evaluation_pipelines_tests.workplace import Workplace

TABLES = len(DAILY_TABLES)


def test_a_range_of_dates_is_built_in_one_run(location: CodeLocation) -> None:
    location.land(0, 1, 1, 2, 4)
    result = location.build(0, 3)

    assert result.success
    # Nothing landed on day 3: its tables exist and are empty.
    days = [day(number) for number in range(4)]
    assert [location.materialized(table) for table in DAILY_TABLES] == [days] * TABLES
    assert location.workplace.sessions()["session_date"].to_list() == days[:3]
    assert [
        location.metadata("agent_sessions", n)["dagster/partition_row_count"] for n in range(4)
    ] == [1, 1, 1, 0]
    built = [
        row.session_date for row in RebuildQueue(location.workplace.ledger).all() if row.is_built
    ]
    assert built == days[:3]
    assert location.instance.get_runs_count() == 1


def test_only_selected_tables_are_built(location: CodeLocation) -> None:
    location.land(0)
    assert location.materialize(0, "agent_events").success
    assert [location.materialized(table) for table in DAILY_TABLES] == [
        [day(0)],
        *[[]] * (TABLES - 1),
    ]
    assert not queued_dates(location.workplace)[day(0)].is_built  # the others are still missing

    assert location.materialize(0, *DAILY_TABLES[1:]).success
    assert [location.materialized(table) for table in DAILY_TABLES] == [[day(0)]] * TABLES
    assert location.workplace.performance().height == 1


def test_checks_are_reported_only_for_tables_that_were_built(location: CodeLocation) -> None:
    location.land(0)
    location.build(0)
    result = location.materialize(0, "agent_sessions", "session_performance")
    reported = {
        (evaluation.asset_key.to_user_string(), evaluation.check_name)
        for evaluation in result.get_asset_check_evaluations()
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
        # A check of the whole lake: "Materialize" includes it, the job of the sensor does not.
        ("session_performance", "scores_match_sessions"),
    }
    assert all(evaluation.passed for evaluation in result.get_asset_check_evaluations())


def test_metadata_has_rows_counts_a_preview_and_the_path(location: CodeLocation) -> None:
    location.land(0, 0)  # the same line twice
    location.build(0)
    events = location.metadata("agent_events", 0)

    assert events["dagster/partition_row_count"] == 4
    assert (events["landed"], events["duplicates"]) == (8, 4)
    assert str(events["preview"]).splitlines()[:3] == [
        r"| session\_id | event\_time | event\_name | tool\_name | success | model |",
        "|---|---|---|---|---|---|",
        r"| s\-0 | 2025\-02\-06 12:00:… | user\_prompt |  |  |  |",
    ]
    path = Path(str(events["path"]))
    assert path == Path(location.workplace.lake.place(AGENT_EVENTS, day(0)))
    assert pl.read_parquet(path).height == 4


def test_metadata_of_performance_has_a_histogram_of_the_composites(location: CodeLocation) -> None:
    location.land(0)
    location.workplace.land("logs.jsonl", session_line(0, "failing", success="false"), "ab")
    location.workplace.ingest()
    location.build(0)
    shown = location.metadata("session_performance", 0)

    assert (shown["dagster/partition_row_count"], shown["scored"], shown["partial"]) == (2, 2, 0)
    picture, _, text = str(shown["composites"]).partition("\n\n")
    assert text == "2 of 2 sessions have a composite"
    composites = location.workplace.performance()["composite"].to_list()
    assert svg_of(picture) == histogram_svg(
        composites, "composite", (0.0, 10.0), {"review": 4.0, "keep": 7.0}
    )
    assert r"| s\-0\#baseline\-1 | 7\.9 | keep | 10\.0 |" in str(shown["preview"])


def test_texts_of_telemetry_are_shown_and_never_interpreted(location: CodeLocation) -> None:
    hostile = "<img src=x>|`[a](b)"
    content = session_line(0, hostile, tool_name="<script>alert(1)</script>")
    location.workplace.land("logs.jsonl", content)
    location.workplace.ingest()
    assert location.build(0).success

    for asset in DAILY_TABLES:
        for text in map(str, location.metadata(asset, 0).values()):
            assert "<img" not in text
            assert "<script" not in text
    preview = str(location.metadata("agent_events", 0)["preview"])
    assert r"&lt;img src=x&gt;\|\`\[" in preview
    assert r"&lt;script&gt;alert\(" in preview
    assert {line.replace(r"\|", "").count("|") for line in preview.splitlines()} == {7}


def test_a_gap_in_a_sequence_warns_and_the_date_is_published(location: CodeLocation) -> None:
    for sequence in (1, 5):  # 2, 3 and 4 are missing
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

    Path(location.workplace.lake.place(SESSION_PERFORMANCE, day(1))).unlink()
    location.execute("check_lake")
    check = location.check(*name)
    assert not check.passed
    assert "is missing. Build its date again" in str(check_texts(check)["found"])

    nothing = SESSION_PERFORMANCE.no_rows
    location.workplace.lake.write(nothing, SESSION_PERFORMANCE, day(1))
    location.execute("check_lake")
    check = location.check(*name)
    assert not check.passed
    shown = check_texts(check)
    assert shown["found"] == "1 without the other"
    assert r"s\-1\#baseline\-1" in str(shown["examples"])


JUNE_1 = date(2026, 6, 1)


def settings(url: str) -> Settings:
    return Settings(service_url=url)


@pytest.mark.parametrize(
    ("table", "path"),
    [
        (AGENT_SESSIONS, "/sessions?from=2026-06-01&to=2026-06-01"),
        (TOOL_REPORTS, "/tools?from=2026-06-01&to=2026-06-01"),
        (EVALUATION_BOOKS, "/operations/books/2026-06-01"),
    ],
)
def test_a_partition_leads_to_the_page_of_its_day(table: Table, path: str) -> None:
    link = page_link(settings("https://pages.example/eval/"), table, JUNE_1)
    assert link["page"].value == f"https://pages.example/eval{path}"


def test_nothing_is_linked_to_without_an_address(workplace: Workplace) -> None:
    assert page_link(workplace.settings, AGENT_SESSIONS, JUNE_1) == {}


@pytest.mark.parametrize(
    "url",
    ["pages.example", "javascript://x/%0aalert(1)", "http://a:b@pages.example", "http://x?y=1"],
)
def test_only_plain_addresses_are_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="must"):
        settings(url)


def test_nothing_is_deleted_unless_it_is_set_and_the_oldest_is_shown(
    location: CodeLocation,
) -> None:
    location.land(0, 1)
    location.build(0, 1)

    assert location.execute("expire").success

    event = location.instance.get_latest_materialization_event(dg.AssetKey("retention"))
    assert event is not None
    materialization = event.asset_materialization
    assert materialization is not None
    shown = {name: value.value for name, value in materialization.metadata.items()}
    assert (shown["rows taken out"], shown["bytes freed"]) == (0, 0)
    assert shown["oldest sessions"] == shown["oldest events"]
