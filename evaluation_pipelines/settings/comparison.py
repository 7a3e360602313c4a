"""Settings: when a comparison has enough to go on."""

from pydantic import Field
from pydantic_settings import BaseSettings


class ComparisonSettings(BaseSettings):
    """How many sessions it takes."""

    baseline_min: int = Field(
        default=5,
        ge=2,
        description="sessions on each side before a masque is compared with the baseline",
    )
