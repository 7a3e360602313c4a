"""Settings of the service."""

from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode

from evaluation_pipelines.settings.session_attributes import split_names


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        ip_network(text)
    return texts


class ServiceSettings(BaseSettings):
    """Names of the service, and the proxies in front of it."""

    service_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_names)] = Field(
        default=(),
        description="host names, separated by commas, under which the service is reached; requests "
        "for another name than these, `localhost` or an IP address are refused",
    )
    trusted_proxies: Annotated[
        tuple[str, ...], NoDecode, BeforeValidator(split_names), AfterValidator(_networks)
    ] = Field(
        default=(),
        description="IP addresses or networks, separated by commas, of proxies whose "
        "`X-Forwarded-For` and `X-Forwarded-User` are believed",
    )
