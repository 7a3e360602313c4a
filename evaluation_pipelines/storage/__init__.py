"""Storage: access to landing files, lake, ledger, DuckDB and ClickHouse, without their meaning.

* ``stores`` opens all of an installation.
* ``landing`` has the telemetry files: ``raw_lines`` of them, ``received_files`` of the service.
* ``lake`` has ``parts`` of tables in a ``store``: ``daily_table`` builds, ``compaction`` merges,
  ``replaced_parts`` rewrites and ``stored_faults`` checks them.
* ``ledger`` and ``clickhouse`` are databases, ``queries`` runs ``sql_files`` in DuckDB.
* ``lock`` lets one process at a time work.
"""
