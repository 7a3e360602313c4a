"""Settings of the nightly evaluation."""

from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be a name such as Europe/Vienna or UTC") from None
    return name


class NightSettings(BaseSettings):
    """When the nightly evaluation starts."""

    nightly_hour: int = Field(
        default=2,
        ge=0,
        le=23,
        description="hour of the nightly evaluation: judge everything that is due, then build "
        "everything that follows from it",
    )
    nightly_time_zone: Annotated[str, AfterValidator(_time_zone)] = Field(
        default="UTC", description="time zone of that hour"
    )
