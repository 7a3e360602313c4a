"""Captured telemetry by every path: identical values in every column."""

from collections.abc import Iterator

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines_tests.lake_files import paths_of
from evaluation_pipelines_tests.telemetry.golden import FORMS, stateless, stored
from evaluation_pipelines_tests.workplace import Workplace, open_workplace


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """Yield a workplace with both forms in one landing folder."""
    with open_workplace(tmp_path_factory.mktemp("both")) as workplace:
        for name, path in FORMS.items():
            workplace.land(f"{name}.jsonl", path.read_bytes())
        workplace.ingest()
        (built,) = workplace.build()
        assert isinstance(built, DateBuilt)
        expected = {"landed": 538, "duplicates": 269, "scored": 14, "partial": 1, "flagged": 1}
        assert {name: built.facts[name] for name in expected} == expected
        yield workplace


INDEPENDENT_QUERY = """
with events as (
    select *, event_time - lag(event_time) over (partition by session_id order by event_time) as gap
    from read_parquet($files, union_by_name = true)
),
counted as (
    select
        session_id,
        count(*) filter (event_name = 'user_prompt') as n_prompts,
        count(*) filter (event_name = 'tool_result' and success) as n_ok,
        count(*) filter (event_name = 'tool_result' and not success) as n_failed,
        count(*) filter (event_name = 'tool_decision' and decision = 'reject') as n_denied,
        count(*) filter (event_name = 'api_request') as n_requests,
        count(*) filter (event_name = 'api_error') as n_errors,
        sum(input_tokens) filter (event_name = 'api_request') as t_in,
        sum(output_tokens) filter (event_name = 'api_request') as t_out,
        sum(cache_read_tokens) filter (event_name = 'api_request') as t_read,
        sum(cache_creation_tokens) filter (event_name = 'api_request') as t_created,
        sum(cost_usd) filter (event_name = 'api_request') as dollars,
        sum(least(coalesce(epoch_us(gap), 0), 30 * 60 * 1000000)) / 1e6 as seconds
    from events
    group by all
),
known as (
    select
        * exclude (t_in, t_out, t_read, t_created, dollars),
        coalesce(t_out, 0) > 0 and t_in + t_read + t_created = 0 as is_blind,
        if(is_blind, null, coalesce(t_in, 0)) as i,
        coalesce(t_out, 0) as o,
        if(is_blind, null, coalesce(t_read, 0)) as r,
        if(is_blind, null, coalesce(t_created, 0)) as c,
        coalesce(dollars, 0) as usd,
        n_ok + n_failed as n
    from counted
),
scored as (
    select
        *,
        10.0 * n_ok / n as d1,
        least(10, 2.0 * n / greatest(1, n_prompts)) as d2,
        least(10, 10.0 * n_ok / greatest(1, seconds / 60)) as d3,
        10.0 * r / (i + o + r + c) as d4,
        greatest(0, 10 - 100.0 * usd / greatest(1, n_ok)) as d5
    from known
)
select
    session_id,
    n_prompts as prompts, n_ok as tools_ok, n_failed as tools_failed, n_denied as tools_denied,
    n as total_tools, n_requests as api_requests, n_errors as api_errors,
    i::bigint as input_tokens, o::bigint as output_tokens, r::bigint as cache_read_tokens,
    c::bigint as cache_creation_tokens, (i + o + r + c)::bigint as total_tokens,
    usd as cost_usd, seconds as active_s,
    if(n = 0, null, d1) as quality,
    if(n = 0, null, d2) as autonomy,
    if(n = 0, null, d3) as productivity,
    if(n = 0, null, d4) as token_efficiency,
    if(n = 0, null, d5) as cost_efficiency,
    if(n = 0, null, (30 * d1 + 25 * d2 + 20 * d3 + coalesce(15 * d4, 0) + 10 * d5)
        / if(d4 is null, 85, 100)) as composite
from scored
order by session_id
"""


def test_an_independent_query_over_the_events_returns_the_same_values(
    golden_form: str, golden_lake: Workplace
) -> None:
    files = [str(path) for path in paths_of(golden_lake.lake, AGENT_EVENTS)]
    with duckdb.connect(":memory:") as connection:
        connection.execute("set TimeZone = 'UTC'")
        queried = connection.sql(INDEPENDENT_QUERY, params={"files": files}).pl().to_dicts()
    assert len(queried) == 17
    for found in (stateless(FORMS[golden_form]), stored(golden_lake)):
        for row in queried:
            row_found = found[row["session_id"]]
            values = {name: value for name, value in row.items() if name != "session_id"}
            assert {name: row_found[name] for name in values} == pytest.approx(values, abs=1e-9)


def test_the_stateless_score_is_the_stored_one_in_every_column(
    golden_form: str, golden_lake: Workplace
) -> None:
    direct, from_lake = stateless(FORMS[golden_form]), stored(golden_lake)
    assert set(from_lake[next(iter(from_lake))]) == {
        *AGENT_SESSIONS.schema.names(),
        *SESSION_PERFORMANCE.schema.names(),
    }
    assert direct == from_lake


def without_origin(events: pl.DataFrame) -> pl.DataFrame:
    return events.drop("source_file_id", "source_offset")


def test_records_re_encoded_by_a_collector_are_the_same_events(
    golden_lake: Workplace, both: Workplace
) -> None:
    """Ingested together, the two forms have the same result as each alone."""
    assert both.landed().height == 2 * golden_lake.landed().height == 538
    assert without_origin(both.events()).equals(without_origin(golden_lake.events()))
    assert both.sessions().equals(golden_lake.sessions())
    assert both.performance().equals(golden_lake.performance())


def test_the_stateless_score_counts_both_files_once(both: Workplace) -> None:
    assert stateless(*FORMS.values()) == stored(both)
