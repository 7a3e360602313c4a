"""Settings of comparisons: of models, and of masques with their baseline."""

from pydantic import Field
from pydantic_settings import BaseSettings


class ComparisonSettings(BaseSettings):
    """What a comparison needs, and what it calls as good."""

    baseline_min: int = Field(
        default=5,
        ge=2,
        description="sessions on each side before a masque is compared with the baseline",
    )
    comparison_margin: float = Field(
        default=5.0,
        gt=0,
        le=100,
        description=(
            "points that a cheaper model may score below the best and still be as good for the "
            "money"
        ),
    )
