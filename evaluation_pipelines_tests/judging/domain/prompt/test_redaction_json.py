"""JSON with secrets in it is still JSON after redaction, with the same structure."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.redaction import personal_kinds, redact
from evaluation_pipelines_tests.judging.domain.secrets_corpus import planted

SECRETS = [each.text for each in planted(7, 1)]
NUMBERS = [4111111111111111, 378282246310005, 123456789, 2125550100]
NAMES = ["password", "api_key", "ssn", "card", "phone", "text", "auth", "a\nb"]

texts = st.one_of(
    st.sampled_from(SECRETS),
    st.tuples(
        st.sampled_from(["\n", "\t", '"', "\\", "é", "n", "a ", "'"]), st.sampled_from(SECRETS)
    ).map("".join),
    st.text(max_size=8),
)
leaves = st.one_of(texts, st.sampled_from(NUMBERS), st.none(), st.booleans(), st.floats(0, 1))
documents = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
        inner.map(json.dumps),
    ),
    max_leaves=8,
)


def shape(document: Any) -> Any:
    """Return lists and names of a document, with its other values replaced."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    return [shape(each) for each in document] if isinstance(document, list) else "value"


@settings(max_examples=150)
@given(documents, st.booleans(), st.sampled_from([None, 1]))
def test_a_document_keeps_its_structure(
    document: Any, ascii_only: bool, indent: int | None
) -> None:
    logged = json.dumps(document, ensure_ascii=ascii_only, indent=indent)

    left = redact(logged, personal=personal_kinds()).text

    assert shape(json.loads(left)) == shape(document)


@pytest.mark.parametrize("seed", range(3))
def test_every_secret_in_every_escape_keeps_a_document_whole(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - drawn anew in the same way
    before = ["\n", "\t", "\r\n", '"', "\\", "\u00e9", "\x1f", "'", "C:\\n"]
    for each in planted(seed, 1):
        document = {"a": f"x{rng.choice(before)}{each.text}", "b": [each.text, 1]}
        nested = {"a": json.dumps(document), "b": [each.text + rng.choice(before), 1]}

        left = json.loads(redact(json.dumps(nested), personal=personal_kinds()).text)

        assert shape(left) == shape(nested), each.kind


@pytest.mark.parametrize(
    ("logged", "left"),
    [
        # The secret begins after the escape, whose letter stays.
        ('"log\\nsk-ant-' + "api03-" + "aB3_" * 9 + '"', '"log\\n[redacted:anthropic-key]"'),
        ('"\\nx9Kq2LmZ7pWv4RtY8nBc3HdF"', '"\\n[redacted:random-text]"'),
        ('"\\u00e9ghp_' + "a1B2" * 9 + '"', '"\\u00e9[redacted:github-token]"'),
        ('{"ssn": 123456789, "a": 1}', '{"ssn": "[redacted:ssn]", "a": 1}'),
        ('{"a": "{\\"card\\": 4111111111111111}"}', '{"a": "{\\"card\\": \\"[redacted:card]\\"}"}'),
        ("[1, 4111111111111111]", '[1, "[redacted:card]"]'),
        ("a,4111111111111111,b", "a,[redacted:card],b"),
    ],
)
def test_escapes_and_numbers_stay_valid(logged: str, left: str) -> None:
    assert redact(logged, personal=personal_kinds()).text == left
