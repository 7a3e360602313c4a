"""What forgetting does not reach, and why."""

from evaluation_pipelines.settings import Settings

_ALWAYS = (
    ("Dagster's storage and logs", "previews of tables hold ids: dagster run delete, and its logs"),
    ("access logs of the service and of proxies", "they belong to whoever runs them"),
    ("providers of the judge", "prompts and batch files are deleted by the provider's rules"),
    ("keys of the service", "names of keys are given by hand: keys revoke"),
    ("what others wrote", "it is in their sessions: forget these, or let texts expire"),
    ("copies and exports", "what was exported, sent to webhooks or lies in backups stays there"),
)
_POSTGRESQL = ("write-ahead log of PostgreSQL", "the server reuses it; archives are backups")
_SOURCE = ("otel_logs in ClickHouse", "it belongs to its collector: delete from there, or its TTL")
_SERVER = ("logs of the ClickHouse server", "its query log is deleted by its own rules")


def exempt_stores(settings: Settings) -> list[tuple[str, str]]:
    """Return the stores that keep what they have, each with the reason."""
    found = list(_ALWAYS)
    if settings.ledger_url.startswith("postgresql"):
        found.append(_POSTGRESQL)
    if settings.clickhouse_dsn is not None:
        found.append(_SERVER)
    if settings.otel_logs_dsn is not None:
        found.append(_SOURCE)
    return found
