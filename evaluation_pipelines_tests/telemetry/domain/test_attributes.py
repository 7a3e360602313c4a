"""Conversion of attribute values to column values: valid, empty, or broken."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.attributes import (
    BROKEN,
    TOO_DEEP,
    AnyValue,
    Convert,
    KeyValue,
    convert_column,
    count,
    dollars,
    flag,
    json_object,
    json_text,
    json_texts,
    milliseconds,
    plain_attribute,
    plain_attributes,
    read_attributes,
    sequence,
    text,
    tokens,
)

INT64_MAX = 9_223_372_036_854_775_807
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def test_attributes_are_plain_values_and_the_last_of_a_repeated_key_counts() -> None:
    sent = [
        ("a", AnyValue(string_value="first")),
        ("a", AnyValue(string_value="last")),
        ("b", AnyValue(int_value="5")),
        ("c", AnyValue()),
        ("d", None),
    ]
    pairs = [KeyValue(key, value) for key, value in sent]
    assert read_attributes(pairs) == {"a": "last", "b": 5, "c": None, "d": None}
    assert read_attributes(None) == {}


PAIR = {"key": "k", "value": {"intValue": "1"}}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (AnyValue(), None),
        (AnyValue(string_value="x"), "x"),
        (AnyValue(string_value=""), ""),
        (AnyValue(int_value="5"), 5),
        (AnyValue(bool_value=False), False),
        (AnyValue(int_value=1.5), 1.5),
        (AnyValue(double_value=0.5), 0.5),
        (AnyValue(double_value="NaN"), "nan"),
        (AnyValue(array_value={"values": [{"intValue": "1"}, {}]}), [1, None]),
        (AnyValue(kvlist_value={"values": [PAIR]}), {"k": 1}),
        (AnyValue(bytes_value="aGk="), "aGk="),
    ],
)
def test_every_kind_of_attribute_has_a_python_value(value: AnyValue | None, plain: object) -> None:
    found = plain_attribute(value)
    assert (found, type(found)) == (plain, type(plain))
    assert plain_attributes([KeyValue("k", value), KeyValue("l", value)]) == [plain, plain]


def in_list(inner: Any) -> dict[str, Any]:
    return {"values": [inner]}


def in_pairs(inner: Any) -> dict[str, Any]:
    return {"values": [{"key": "k", "value": inner}]}


def test_attributes_nested_too_deeply_are_replaced_by_a_note() -> None:
    lists: dict[str, Any] = {"intValue": 1}
    pairs: dict[str, Any] = {"intValue": 1}
    for _ in range(100):
        lists, pairs = {"arrayValue": in_list(lists)}, {"kvlistValue": in_pairs(pairs)}

    for value, levels in (
        # The attribute is level 0, so that 50 levels are within it.
        (AnyValue(array_value=in_list(lists)), [list] * 51),
        (AnyValue(array_value=in_list(pairs)), [list] + [dict] * 50),
        (AnyValue(kvlist_value=in_pairs(lists)), [dict] + [list] * 50),
        (AnyValue(kvlist_value=in_pairs(pairs)), [dict] * 51),
    ):
        plain, found = plain_attribute(value), []
        while plain != TOO_DEEP:
            found.append(type(plain))
            plain = plain["k"] if isinstance(plain, dict) else plain[0]
        assert found == levels


@pytest.mark.parametrize(
    ("value", "column"),
    [
        ("x", "x"),
        ("", None),
        (None, None),
        ("a\0b", "ab"),
        ("\0", None),
        (5, "5"),
        (True, "true"),
        (0.5, "0.5"),
        (["a", 1], '["a",1]'),
        ({"k": "ü"}, '{"k":"ü"}'),
    ],
)
def test_a_string_is_unchanged_and_other_values_are_json(value: object, column: str | None) -> None:
    assert text(value) == column


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (15, 15),
        ("15", 15),
        (15.0, 15),
        ("15.0", 15),
        ("1.5e1", 15),
        (0, 0),
        ("0", 0),
        (-0.0, 0),
        (INT64_MAX, INT64_MAX),
        ("", None),
        (None, None),
        (-1, BROKEN),
        ("-1", BROKEN),
        (1.5, BROKEN),
        (INT64_MAX + 1, BROKEN),
        (str(INT64_MAX + 1), BROKEN),
        ("9" * 5_000, BROKEN),
        (10**400, BROKEN),
        ("undefined", BROKEN),
        ("NaN", BROKEN),
        ("Infinity", BROKEN),
        (True, BROKEN),
        ([1], BROKEN),
        ({}, BROKEN),
    ],
)
def test_a_count_is_a_whole_number_from_0_on(value: object, column: object) -> None:
    assert count(value) == column
    assert type(count(value)) in (int, type(None), object)


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (0.0336432, 0.0336432),
        ("0.0336432", 0.0336432),
        (5, 5.0),
        ("5", 5.0),
        (0, 0.0),
        ("", None),
        (None, None),
        (-0.01, BROKEN),
        ("-5", BROKEN),
        (float("nan"), BROKEN),
        (float("inf"), BROKEN),
        (10**400, BROKEN),
        ("free", BROKEN),
        (False, BROKEN),
    ],
)
def test_an_amount_is_a_finite_number_from_0_on(value: object, column: object) -> None:
    for amount in (milliseconds, dollars):
        assert amount(value) == column
        assert type(amount(value)) in (float, type(None), object)


@pytest.mark.parametrize(
    ("convert", "most", "more"),
    [
        (tokens, 10**9, 10**9 + 1),
        (sequence, 10**12, 10**12 + 1),
        (milliseconds, 2_592_000_000, 2_592_000_000.5),  # 30 days
        (dollars, 10_000, 10_000.01),
        (dollars, 9_999.99, 1e26),
    ],
)
def test_what_was_never_measured_is_broken(convert: Convert, most: float, more: float) -> None:
    assert [convert(most), convert(str(most))] == [most, most]
    assert [convert(more), convert(str(more))] == [BROKEN, BROKEN]
    assert list(convert_column([most, 0], convert)) == [most, 0]
    assert list(convert_column([most, more], convert)) == [most, BROKEN]


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (True, True),
        (False, False),
        ("true", True),
        ("FALSE", False),
        ("", None),
        (None, None),
        ("yes", BROKEN),
        (1, BROKEN),
        ([], BROKEN),
    ],
)
def test_a_flag_is_a_boolean_or_its_name(value: object, column: object) -> None:
    assert flag(value) is column


@given(ANYTHING)
def test_every_conversion_returns_a_valid_column_value(value: object) -> None:
    converted = text(value)
    assert converted is None or (converted and "\0" not in converted)
    whole = count(value)
    assert whole in (None, BROKEN) or (type(whole) is int and 0 <= whole <= INT64_MAX)
    number = dollars(value)
    assert number in (None, BROKEN) or (type(number) is float and 0 <= number < float("inf"))
    assert flag(value) in (None, BROKEN, True, False)


def test_attributes_without_a_column_are_json_or_none() -> None:
    assert json.loads(json_text({"a": [1, None], "ü": "\0"}) or "") == {"a": [1, None], "ü": "\0"}
    assert json_text({}) is None


def test_json_text_of_each_record_stays_with_its_record() -> None:
    assert json_texts([{}, {"a": "x\ny"}, {}, {"b": 1}]) == [
        None,
        '{"a":"x\\ny"}',
        None,
        '{"b":1}',
    ]
    assert json_texts([]) == []


@pytest.mark.parametrize("document", ["[1]", "1", "", None, "[" * 100_000])
def test_what_is_no_json_object_is_empty(document: str | None) -> None:
    assert json_object(document) == {}


@given(
    st.dictionaries(st.text(), ANYTHING, max_size=3),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from('{}[]",:019.eE-+NaI\\u \ud800\t'))),
)
@example(values={"a": 2**64}, ascii_only=True, changes=[])
@example(values={"a": -(2**63) - 1}, ascii_only=True, changes=[])
@example(values={"a": "\ud800"}, ascii_only=False, changes=[])
@example(values={"a": 1e308}, ascii_only=True, changes=[(9, "9")])
def test_an_object_is_what_the_json_of_python_says(
    values: dict[str, object], ascii_only: bool, changes: list[tuple[int, str]]
) -> None:
    document = json.dumps(values, ensure_ascii=ascii_only)
    for place, letter in changes:
        document = document[:place] + letter + document[place + 1 :]
    try:
        parsed = json.loads(document)
    except ValueError:
        parsed = {}
    # Not ==: nan differs from itself, and 1 equals 1.0.
    assert repr(json_object(document)) == repr(parsed if isinstance(parsed, dict) else {})


@pytest.mark.parametrize(
    ("values", "convert", "columns"),
    [
        (["a", "b"], text, ["a", "b"]),
        (["a", "", "b\0c", 5, None], text, ["a", None, "bc", "5", None]),
        (["a", ""], text, ["a", None]),
        (["a", "b\0"], text, ["a", "b"]),
        (["5", "6"], tokens, [5, 6]),
        (["true", "false"], flag, [True, False]),
        ([3, 5], tokens, [3, 5]),
        ([-1, 5], tokens, [BROKEN, 5]),
        ([True, 5], tokens, [BROKEN, 5]),
        ([], tokens, []),
        ([], text, []),
    ],
)
def test_a_column_is_converted_value_by_value(
    values: list[object], convert: Convert, columns: list[object]
) -> None:
    assert list(convert_column(values, convert)) == columns
