"""Token counts of API requests, as sources count them and as the columns do."""

from evaluation_pipelines.domain.telemetry.dialects.dialect import Row


def leave_out_cached(row: Row) -> None:
    """Take the cached tokens out of ``input_tokens``, for a source that counts them in.

    Sources send no count of cached tokens where no cache was involved: it is 0 then. Input is
    unknown when a count is broken, or when more was cached than went in.
    """
    read = row.setdefault("cache_read_tokens", 0)
    created = row.setdefault("cache_creation_tokens", 0)
    everything = row.get("input_tokens")
    row["input_tokens"] = None
    if None not in (everything, read, created) and everything >= read + created:
        row["input_tokens"] = everything - read - created
