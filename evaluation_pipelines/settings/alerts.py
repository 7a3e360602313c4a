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
    """Where alerts are sent, and how long a source may be silent."""

    alert_webhook_url: Annotated[SecretStr, AfterValidator(_webhook)] | None = Field(
        default=None,
        description='URL to which alerts are posted as JSON `{"text": ...}`, such as a Slack '
        "webhook; without it alerts are only logged",
        repr=False,
    )
    stale_telemetry_hours: float = Field(
        default=96,
        gt=0,
        allow_inf_nan=False,
        description="hours without a new event of an agent program after which an alert is raised; "
        "a long weekend has about 90",
    )
