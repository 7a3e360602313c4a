"""Settings of the engine."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings


def _engine(name: str) -> str:
    host, _, port = name.removeprefix("ray://").rpartition(":")
    is_address = name.startswith("ray://") and bool(host) and port.isdecimal()
    if name not in ("local", "ray") and not is_address:
        message = "must be local, ray or ray://<host>:<port>"
        raise ValueError(message)
    return name


class EngineSettings(BaseSettings):
    """Where ingest and builds run their work."""

    engine: Annotated[str, AfterValidator(_engine)] = Field(
        default="local",
        description="where ingest and builds run their work: `local` (threads and processes of "
        "this machine), `ray` (the Ray cluster that `RAY_ADDRESS` names, or one on this machine) "
        "or `ray://<host>:<port>` (a Ray cluster elsewhere, with the ledger in PostgreSQL)",
    )
