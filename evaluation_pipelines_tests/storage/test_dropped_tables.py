"""Files of dropped tables are deleted at once, those of the names that are asked for."""

from evaluation_pipelines.storage.clickhouse import open_clickhouse
from evaluation_pipelines.storage.dropped_tables import delete_dropped_files
from evaluation_pipelines_tests.storage.dropped import drop_as_a_kill_does, dropped


def test_files_of_dropped_tables_are_deleted(clickhouse_dsn: str) -> None:
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        for table in ("signals_kept", "signals_kept", "_serving_new", "signals"):
            drop_as_a_kill_does(clickhouse, table)
        delete_dropped_files(clickhouse, suffix="_kept")
        assert dropped(clickhouse) == ["_serving_new", "signals"]
        delete_dropped_files(clickhouse, prefix="_serving")
        assert dropped(clickhouse) == ["signals"]
        delete_dropped_files(clickhouse)
        assert dropped(clickhouse) == []
