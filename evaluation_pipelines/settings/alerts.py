"""Settings: who is told when something goes wrong."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings


def _webhook(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("http://", "https://")):
        message = "must begin with http:// or https://"
        raise ValueError(message)
    return url


class AlertSettings(BaseSettings):
    """Where alerts go."""

    alert_webhook_url: Annotated[SecretStr, AfterValidator(_webhook)] | None = Field(
        default=None,
        description='where alerts are posted as JSON `{"text": ...}`, such as a Slack webhook; '
        "without it they are only logged",
        repr=False,
    )
