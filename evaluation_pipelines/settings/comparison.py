"""Settings of the masque lift."""

from pydantic import Field
from pydantic_settings import BaseSettings


class ComparisonSettings(BaseSettings):
    """Sessions that a comparison needs."""

    baseline_min: int = Field(
        default=5,
        ge=2,
        description="sessions on each side before a masque is compared with the baseline",
    )
