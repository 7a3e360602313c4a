"""Storage: access to landing files, lake, ledger, DuckDB and ClickHouse, without their meaning.

``stores`` opens all of an installation; ``lock`` is how one process does something alone.
"""
