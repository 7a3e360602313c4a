"""Polars: ``read_ndjson`` with an explicit schema, attributes pivoted to columns, into Parquet."""

import os

import polars as pl

from evaluation_pipelines_tests.benchmarks.columns import (
    ATTRIBUTES_WITH_COLUMN,
    COLUMNS,
    OF_RESOURCE_TOO,
    Column,
)

_KINDS = ("stringValue", "intValue", "doubleValue", "boolValue")
_TYPES = {"count": pl.Int64, "amount": pl.Float64}
_VALUE = pl.Struct(dict.fromkeys(_KINDS, pl.String()))
_ATTRIBUTES = pl.List(pl.Struct({"key": pl.String(), "value": _VALUE}))
_RECORD = pl.Struct(
    {
        "timeUnixNano": pl.String(),
        "observedTimeUnixNano": pl.String(),
        "body": pl.Struct({"stringValue": pl.String()}),
        "attributes": _ATTRIBUTES,
    }
)
_SCOPE = pl.Struct({"logRecords": pl.List(_RECORD)})
_REQUEST = pl.Struct(
    {"resource": pl.Struct({"attributes": _ATTRIBUTES}), "scopeLogs": pl.List(_SCOPE)}
)
_WANTED = [*ATTRIBUTES_WITH_COLUMN, "service.name", "service.version"]


def produce(source: str, folder: str, threads: int) -> dict[str, str]:
    """Write the events of a file as Parquet; gives where."""
    os.environ["POLARS_MAX_THREADS"] = str(threads)  # read when the first query runs
    target = f"{folder}/events.parquet"
    requests = (
        pl.read_ndjson(source, schema={"resourceLogs": pl.List(_REQUEST)})
        .drop_nulls()
        .explode("resourceLogs")
        .unnest("resourceLogs")
        .with_row_index("request")
    )
    records = (
        requests.select("request", "scopeLogs")
        .explode("scopeLogs")
        .unnest("scopeLogs")
        .explode("logRecords")
        .unnest("logRecords")
        .with_row_index("record")
    )
    resources = requests.select("request", pl.col("resource").struct.unnest())
    told = _pivoted(resources, "request").rename(lambda name: f"resource {name}")
    attributes = _pivoted(records.select("record", "attributes"), "record")
    events = records.join(attributes, on="record").join(
        told, left_on="request", right_on="resource request", how="left"
    )
    time, observed = (
        pl.from_epoch(pl.col(name).cast(pl.Int64) // 1000, "us").dt.replace_time_zone("UTC")
        for name in ("timeUnixNano", "observedTimeUnixNano")
    )
    events.filter(pl.col("session.id").is_not_null()).select(
        time.alias("event_time"),
        observed.alias("observed_time"),
        time.dt.date().alias("session_date"),
        pl.col("resource service.name").alias("service_name"),
        pl.col("resource service.version").alias("service_version"),
        pl.col("body").struct.field("stringValue").alias("source_event_name"),
        *map(_expression, COLUMNS),
        pl.col("attributes_right").alias("attributes"),
    ).write_parquet(target)
    return {"parquet": target, "columns": str(len(COLUMNS) + 7)}


def _pivoted(rows: pl.DataFrame, index: str) -> pl.DataFrame:
    """One row per value of ``index``: a column per attribute, and JSON text of the others."""
    value = pl.coalesce(pl.col("value").struct.field(kind) for kind in _KINDS)
    pairs = (
        rows.lazy()
        .explode("attributes")
        .unnest("attributes")
        .select(index, "key", value.alias("value"))
    )
    known = pl.col("key").is_in(_WANTED)
    pair = pl.format("{}:{}", pl.struct("key").struct.json_encode(), "value")
    columns = pairs.filter(known).pivot(
        on="key", on_columns=_WANTED, index=index, values="value", aggregate_function="first"
    )
    others = pairs.filter(~known).group_by(index).agg(pair.str.join(",").alias("attributes"))
    return columns.join(others, on=index, how="left").collect()


def _expression(column: Column) -> pl.Expr:
    found = [pl.col(attribute) for attribute in column.attributes]
    if column.name in OF_RESOURCE_TOO:
        found.append(pl.col(f"resource {column.attributes[0]}"))
    value = pl.coalesce(found)
    if column.kind == "flag":
        return (value == "true").alias(column.name)
    return value.cast(_TYPES.get(column.kind, pl.String), strict=False).alias(column.name)
