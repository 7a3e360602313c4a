"""Settings files that make agents send telemetry to a receiver."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OF_EACH_USER = "of each user, or the variables by the device management"


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where telemetry goes, and what is sent.

    Attributes:
        endpoint: Base URL, without ``/v1/logs``.
        key: Key of the service; ``None`` if it needs none.
        texts: Whether prompts and parameters of tool calls are sent, too.
        attributes: Attributes of every record, such as ``team.id``.
    """

    endpoint: str
    key: str | None
    texts: bool
    attributes: Mapping[str, str]

    @property
    def headers(self) -> str | None:
        """Value of OTEL_EXPORTER_OTLP_HEADERS."""
        return None if self.key is None else f"Authorization=Bearer {self.key}"

    @property
    def resource(self) -> str | None:
        """Value of OTEL_RESOURCE_ATTRIBUTES."""
        pairs = (f"{name}={_encoded(value)}" for name, value in self.attributes.items())
        return ",".join(pairs) or None


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file of settings: its name, its text, and where it belongs."""

    name: str
    text: str
    where: str


def standard_variables(receiver: Receiver) -> dict[str, str]:
    """Return the variables that every OpenTelemetry SDK reads."""
    return given(
        {
            "OTEL_EXPORTER_OTLP_HEADERS": receiver.headers,
            "OTEL_RESOURCE_ATTRIBUTES": receiver.resource,
        }
    )


def given(values: Mapping[str, str | None]) -> dict[str, str]:
    """Return the values that are known."""
    return {name: value for name, value in values.items() if value is not None}


def env_file(values: Mapping[str, str], where: str) -> SettingsFile:
    """Return a file of variables."""
    lines = [f'{name}="{value}"\n' for name, value in values.items()]
    return SettingsFile(".env", "".join(lines), where)


def json_text(value: dict[str, Any]) -> str:
    """Return JSON as a file has it."""
    return json.dumps(value, indent=2) + "\n"


def toml_text(value: str) -> str:
    """Return a basic string of TOML: it has the escapes of JSON."""
    return json.dumps(value)


def _encoded(value: str) -> str:
    """Percent-encode what a value of OTEL_RESOURCE_ATTRIBUTES cannot have."""
    allowed = "-._~/:@+"
    return "".join(
        character
        if character.isascii() and (character.isalnum() or character in allowed)
        else _percent(character)
        for character in value
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
