"""Messages of parsers in plain words."""

import pytest

from evaluation_pipelines.telemetry.domain.plain_reasons import plain_reason


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("not UTF-8 at byte 7", "not UTF-8 at byte 7"),
        (
            "not JSON: Expecting value: line 1 column 8 (char 7)",
            "not JSON: Expecting value (character 7)",
        ),
        (
            "not JSON: Expecting value: line 1 column 5001 (char 5000)",
            "not JSON: Expecting value (character 5,000)",
        ),
        ("not JSON: Expecting value: line N column N (char N)", "not JSON: Expecting value"),
        (
            "not an OTLP span: Expected `array | null`, got `str` - at `$.a[...].b`",
            "not an OTLP span: $.a[...].b has the wrong type: str, not array | null",
        ),
        (
            "not an OTLP span: Expected `int`, got `str`",
            "not an OTLP span: a field has the wrong type: str, not int",
        ),
    ],
)
def test_messages_of_parsers_are_shown_in_plain_words(reason: str, shown: str) -> None:
    assert plain_reason(reason) == shown
