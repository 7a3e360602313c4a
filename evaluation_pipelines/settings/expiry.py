"""Settings of expiry: after how many days what is deleted."""

from pydantic import Field
from pydantic_settings import BaseSettings


class ExpirySettings(BaseSettings):
    """Days after which data are deleted; by session date, or by the day on which they were read."""

    keep_texts_days: int | None = Field(
        default=None,
        gt=0,
        description="days after which prompts, replies, parameters, results and analyses are "
        "deleted; figures stay; never unless set",
    )
    keep_events_days: int | None = Field(
        default=None,
        gt=0,
        description="days after which events are deleted, with their texts; sessions and scores "
        "stay, and their dates are not built again; never unless set",
    )
    keep_sessions_days: int | None = Field(
        default=None,
        gt=0,
        description="days after which everything of a session date is deleted; never unless set",
    )
    keep_quarantine_days: int | None = Field(
        default=None,
        gt=0,
        description="days after which lines in quarantine are deleted; never unless set",
    )
    keep_landing_days: int | None = Field(
        default=None,
        gt=0,
        description="days after their last change after which landing files are deleted that were "
        "read to their end; never unless set",
    )
