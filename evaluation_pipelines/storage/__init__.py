"""Storage: access to landing files, lake, ledger, DuckDB and ClickHouse, without their meaning.

``stores`` opens all of an installation: ``landing`` (``raw_lines``, ``received_files``), the
``ledger``, ``clickhouse``, and the ``lake`` of ``parts`` in a ``store`` (``daily_table`` builds,
``compaction`` merges, ``replaced_parts`` rewrites, ``stored_faults`` checks them). ``queries``
runs ``sql_files`` in DuckDB, ``lock`` is how one process does something alone.
"""
