"""Settings of reputation: ClickHouse, and deltas of signals."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings

_SCHEMES = ("chdb:///", "clickhouse://", "clickhouses://")

_Delta = Annotated[float, Field(ge=-1, le=1)]


def _dsn(dsn: SecretStr | None) -> SecretStr | None:
    if dsn is not None and not dsn.get_secret_value().startswith(_SCHEMES):
        raise ValueError(f"must begin with {', '.join(_SCHEMES)}")
    return dsn


class ReputationSettings(BaseSettings):
    """ClickHouse and the signals of other systems."""

    clickhouse_dsn: Annotated[SecretStr | None, AfterValidator(_dsn)] = Field(
        default=None,
        description="reputation: `chdb:///folder` (embedded ClickHouse), "
        "`clickhouse://user:password@host:8123/database` (a server) or the same with "
        "`clickhouses://` (TLS); the folder `clickhouse` in the data folder unless set",
        repr=False,
    )
    clickhouse_patience_s: float = Field(
        default=60.0,
        ge=0,
        description="seconds to wait for ClickHouse while it is down or in use",
    )
    signal_deltas: dict[str, _Delta] = Field(
        default_factory=dict,
        description="reputation: JSON object, event type of an outside signal -> its "
        "`score_delta` (-1 to 1) where the signal gives none; adds to the table in "
        "docs/reputation.md",
    )
