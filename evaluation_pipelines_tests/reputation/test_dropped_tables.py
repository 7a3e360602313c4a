"""Files of dropped tables are deleted at once, those of the names that are asked for."""

import pytest

from evaluation_pipelines.reputation import store
from evaluation_pipelines.reputation.store import delete_dropped_files
from evaluation_pipelines.storage.clickhouse import ClickHouse, ClickHouseError, open_clickhouse
from evaluation_pipelines_tests.reputation.dropped import drop_as_a_kill_does, dropped


def test_files_of_dropped_tables_are_deleted_of_the_embedded_engine(clickhouse_dsn: str) -> None:
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        for table in ("signals_kept", "signals_kept", "others_kept"):
            drop_as_a_kill_does(clickhouse, table)
        delete_dropped_files(clickhouse, ["signals_kept"])
        # A server needs no rights for it: it deletes them itself after some minutes.
        kept = ["others_kept"] if clickhouse.is_embedded else ["others_kept", *["signals_kept"] * 2]
        assert dropped(clickhouse) == kept


def test_one_that_is_being_deleted_is_waited_for(
    one_clickhouse_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_clickhouse(one_clickhouse_dsn, patience_s=0) as clickhouse:
        if not clickhouse.is_embedded:
            pytest.skip("a server deletes dropped tables itself")
        drop_as_a_kill_does(clickhouse, "signals_kept")
        refused = _Refusing(clickhouse)
        monkeypatch.setattr(store, "_PATIENCE_S", 0.2)
        with pytest.raises(ClickHouseError, match="a dropped table signals_kept are not deleted"):
            delete_dropped_files(refused, ["signals_kept"])
        delete_dropped_files(clickhouse, ["signals_kept"])
        delete_dropped_files(refused, ["signals_kept"])  # it is gone


class _Refusing(ClickHouse):
    """Says of each dropped table that it is being deleted."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._of = clickhouse
        super().__init__(clickhouse._client, is_embedded=True)

    def run(self, statement: str, **values: object) -> None:
        if statement.startswith("undrop"):
            raise ClickHouseError("The drop task of table signals_kept is in progress")
        self._of.run(statement, **values)
