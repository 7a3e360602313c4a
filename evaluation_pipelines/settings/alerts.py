"""Settings of alerts."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings


def _webhook(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    if not text.startswith(("http://", "https://")):
        message = "must begin with http:// or https://"
        raise ValueError(message)
    if not text.isascii() or not text.isprintable() or " " in text:
        message = "must have no blanks, line ends or letters outside ASCII"
        raise ValueError(message)
    return url


class AlertSettings(BaseSettings):
    """Where alerts are sent, how long a source may be silent, and what may be spent."""

    alert_webhook_url: Annotated[SecretStr, AfterValidator(_webhook)] | None = Field(
        default=None,
        description='URL to which alerts are posted as JSON `{"text": ...}`, such as a Slack '
        "webhook; without it alerts are only logged",
        repr=False,
    )
    alert_cost_per_day_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="cost of the requests of a day (UTC) in USD; an alert is raised for each "
        "organization, team or person over it; people as `EVAL_PEOPLE_VIEW` allows",
    )
    alert_cost_per_month_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="the same of a month (UTC); the alert is raised at 80% of it",
    )
    stale_telemetry_hours: float = Field(
        default=96,
        gt=0,
        allow_inf_nan=False,
        description="hours without a new event of an agent program after which an alert is raised; "
        "a long weekend has about 90",
    )
