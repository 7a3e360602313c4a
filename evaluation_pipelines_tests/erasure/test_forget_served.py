"""Who was forgotten is gone from the ClickHouse of dashboards, too, with every byte."""

from pathlib import Path

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.errors import NotForgottenError
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines_tests.clickhouse_server import clickhouse_server
from evaluation_pipelines_tests.erasure.two_people import (
    PHRASE,
    SESSION,
    fill_fresh,
    found,
    two_people,
)
from evaluation_pipelines_tests.reporting.served_rows import ask, published, served
from evaluation_pipelines_tests.workplace import NOW, open_workplace


def test_no_row_and_no_byte_of_them_is_left(tmp_path: Path) -> None:
    """A server that is down is an error; the next run does the rest. A date of hers alone goes."""
    engine, data, ada = tmp_path / "engine", tmp_path / "data", Subject("user", "ada-worker-7")
    with clickhouse_server(engine) as dsn:
        settings = {"serve_clickhouse_dsn": dsn, "clickhouse_patience_s": 0, "publish_texts": True}
        with open_workplace(data, **settings) as workplace:
            fill_fresh(workplace, two_people())
            link = publish_analytics(workplace.stores, NOW).link
        dates = "select distinct session_date::String as day from sessions order by day"
        assert [each["day"] for each in ask(dsn, dates)] == ["2026-06-01", "2026-06-02"]
    assert {name for names in found(engine).values() for name in names} >= {PHRASE, SESSION}
    with (
        open_workplace(data, **settings) as workplace,
        pytest.raises(NotForgottenError, match=r"still have what was to be forgotten.*Then run"),
    ):
        Forget(workplace.stores, "root", clock=lambda: NOW).run(ada)
    with (
        clickhouse_server(engine) as dsn,
        open_workplace(data, **settings | {"serve_clickhouse_dsn": dsn}) as workplace,
    ):
        Forget(workplace.stores, "root", clock=lambda: NOW).run(ada)
        assert [each["day"] for each in ask(dsn, dates)] == ["2026-06-01"]
        assert served(dsn, link) == published(link)
        assert len(published(link)["sessions"]) == 1
    assert found(engine) == {}
