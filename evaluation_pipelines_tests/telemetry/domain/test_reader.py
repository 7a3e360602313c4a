"""Events of lines: envelopes, values, times, identity, and records that are not events."""

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.schemas import EVENTS_WITH_TEXTS
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one
from evaluation_pipelines_tests.world import NOON_NS, SESSION, claude, line, request


def test_an_empty_batch_has_the_columns_of_the_table() -> None:
    assert read().events.schema == EVENTS_WITH_TEXTS
    assert read(line(claude("user_prompt"))).events.schema == EVENTS_WITH_TEXTS


def test_a_negative_cost_is_unknown() -> None:
    batch = read(line(claude("api_request", cost_usd=-0.5)))
    assert batch.events["cost_usd"].to_list() == [None]
    assert batch.events["cost_source"].to_list() == ["unknown"]
    assert batch.counts.value_anomalies == 1


@pytest.mark.parametrize(
    ("times", "expected", "anomaly"),
    [
        # event.timestamp comes first, then timeUnixNano, then the observed time.
        (("2026-06-01T12:00:01.5Z", NOON_NS, NOON_NS), "12:00:01.500000", False),
        (("2026-06-01T14:00:01+02:00", NOON_NS, NOON_NS), "12:00:01", False),
        (("2026-06-01T12:00:01", None, None), "12:00:01", False),
        # One that cannot be read is flagged, and the next of them counts.
        (("yesterday", NOON_NS, None), "12:00:00", True),
        ((None, "noon", NOON_NS), "12:00:00", True),
        (("", "noon", NOON_NS), "12:00:00", True),
        ((None, {"low": 1.5, "high": 2}, NOON_NS), "12:00:00", True),
        # Halves of 32 bits, the lower one with a sign or without: 1 780 315 200 000 000 000 is
        # 414 511 933 * 2^32 + 3 963 256 832.
        ((None, {"low": NOON_NS % 2**32, "high": NOON_NS // 2**32}, None), "12:00:00", False),
        ((None, {"low": 3_963_256_832 - 2**32, "high": 414_511_933}, None), "12:00:00", False),
        ((None, "2026-06-01T14:00:00.000001999+02:00", None), "12:00:00.000001", False),
        ((None, "0", NOON_NS), "12:00:00", False),
        ((None, None, str(NOON_NS)), "12:00:00", False),
        # Nanoseconds stay integers: as a float ...999 would be rounded up to the next second.
        ((None, NOON_NS + 999_999_999, None), "12:00:00.999999", False),
        # 1970, and later than five minutes from now: the observed time counts, flagged.
        (("1970-01-01T00:00:00Z", NOON_NS, NOON_NS), "12:00:00", True),
        (("2026-06-02T00:05:01Z", None, NOON_NS), "12:00:00", True),
        # No usable time: the time of reading.
        ((None, None, None), "00:00:00", True),
        ((None, 1.78e18, None), "00:00:00", True),
    ],
)
def test_the_first_usable_time_counts(
    times: tuple[str | None, Any, Any], expected: str, anomaly: bool
) -> None:
    stamp, sent, observed = times
    record = claude("user_prompt", event__timestamp=stamp)
    record |= {"timeUnixNano": sent, "observedTimeUnixNano": observed}
    event = read_one(line(record))
    assert event["event_time"].time().isoformat() == expected
    assert event["time_anomaly"] is anomaly


def test_replaced_times_are_counted_by_what_replaced_them() -> None:
    def timed(stamp: str | None, sent: Any, observed: Any) -> bytes:
        record = claude("user_prompt", event__timestamp=stamp)
        return line({**record, "timeUnixNano": sent, "observedTimeUnixNano": observed})

    counts = read(
        timed("yesterday", NOON_NS, NOON_NS),
        timed(None, "noon", NOON_NS),
        timed("1970-01-01T00:00:00Z", NOON_NS, NOON_NS),
        timed(None, "noon", "noon"),
        timed(None, NOON_NS, NOON_NS),
        b'{"session_id": "s", "masque": "M", "donned_at": "1970-01-01T00:00:00Z"}',
    ).counts
    # By the time of the record 1, by the observed time 2, by the time of ingest 2.
    assert (counts.time_anomalies, counts.times_observed, counts.times_of_ingest) == (5, 2, 2)


def test_a_time_five_minutes_in_the_future_is_accepted() -> None:
    event = read_one(line(claude("user_prompt", event__timestamp="2026-06-02T00:05:00Z")))
    assert event["time_anomaly"] is False


def test_a_record_that_was_sent_again_has_the_same_id() -> None:
    """Also when a collector re-encoded it: integers as strings, attributes in another order."""
    record = claude("api_request", output_tokens=7, cost_usd=0.5)
    again = {**record, "attributes": record["attributes"][::-1]}
    again["attributes"] = [
        {"key": a["key"], "value": {"intValue": 7} if a["key"] == "output_tokens" else a["value"]}
        for a in again["attributes"]
    ]
    batch = read(line(record), line(again))
    assert batch.events["event_id"].n_unique() == 1


@pytest.mark.parametrize(
    "other",
    [
        claude("api_request", 0.001, output_tokens=7),
        claude("api_request", output_tokens=8),
        claude("api_error", output_tokens=7),
        claude("api_request", output_tokens=7, model="x"),
    ],
)
def test_a_record_that_differs_in_what_its_agent_wrote_has_another_id(
    other: dict[str, Any],
) -> None:
    batch = read(line(claude("api_request", output_tokens=7)), line(other))
    assert batch.events["event_id"].n_unique() == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Resumed, a session counts from 0 again.
        (claude("user_prompt", event__sequence=1), claude("user_prompt", 5, event__sequence=1)),
        (claude("user_prompt", event__sequence=1), claude("hook_x", event__sequence=1)),
        (claude("user_prompt", event__sequence=1), claude("user_prompt", event__sequence=2)),
        (claude("tool_result", tool_use_id="t"), claude("tool_decision", tool_use_id="t")),
        (claude("tool_result", tool_use_id="t"), claude("tool_result", tool_use_id="u")),
        (claude("assistant_response", request_id="r"), claude("api_request", request_id="r")),
        # Two texts of one reply.
        (
            claude("assistant_response", request_id="r", response="a"),
            claude("assistant_response", request_id="r", response="b"),
        ),
        (
            claude("user_prompt", event__sequence=1),
            claude("user_prompt", event__sequence=1, session__id="s2"),
        ),
        (claude("user_prompt", event__sequence="x"), claude("user_prompt", event__sequence="y")),
    ],
)
def test_other_records_stay_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert read(line(one), line(other)).events["event_id"].n_unique() == 2


def test_equal_records_of_one_request_are_as_many_events_and_the_same_ones_when_sent_again() -> (
    None
):
    call = claude("tool_result", tool_name="Glob", success="true")
    other = claude("tool_result", tool_name="Read", success="true")
    moved = {**call, "attributes": call["attributes"][::-1]}
    request = line(call, other, moved, call)
    batch = read(request, request, line(call), b"[" + line(call).strip() + b"]\n")
    ids = batch.events["event_id"].to_list()
    assert ids[:4] == ids[4:8]
    assert len(set(ids)) == 4
    assert ids[8:] == [ids[0]] * 2
    # Two thousand are converted in several steps, and are still of one request.
    assert read(line(*[call] * 2_000)).events["event_id"].n_unique() == 2_000
    # What names itself is a copy wherever it stands.
    named = claude("tool_result", tool_use_id="t", tool_name="Glob")
    assert read(line(named, named)).events["event_id"].n_unique() == 1


def test_a_record_without_any_time_is_the_same_event_whenever_it_was_observed() -> None:
    untimed = {**claude("user_prompt"), "timeUnixNano": "0"}
    later = {**untimed, "observedTimeUnixNano": str(NOON_NS + 10**9)}
    assert read(line(untimed), line(untimed), line(later)).events["event_id"].n_unique() == 1
    # Two of one request are two.
    assert read(line(untimed, later), line(later, untimed)).events["event_id"].n_unique() == 2


def test_records_that_are_no_events_are_counted_by_name() -> None:
    foreign = request([claude("user_prompt")], scope="opencode")
    foreign["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["body"] = {"stringValue": "init"}
    without_session = claude("user_prompt", session__id="")
    batch = read(
        json.dumps(foreign).encode(), line(without_session), b'{"resourceMetrics": []}', b"{}"
    )
    assert batch.events.is_empty()
    assert batch.names == {("opencode", "user_prompt"): 1, ("claude_code", "user_prompt"): 1}
    assert (batch.counts.unknown_records, batch.counts.unattributed) == (1, 1)
    assert (batch.counts.skipped, batch.counts.lines, batch.counts.quarantined) == (1, 4, 0)


def test_unknown_events_are_stored_if_configured() -> None:
    foreign = json.dumps(request([claude("user_prompt")], scope="other")).replace(
        "claude_code.", ""
    )
    event = read_one(foreign.encode(), keep_unknown_events=True)
    assert (event["event_name"], event["source_cli"]) == ("other", None)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{", "not JSON"),
        (b'{"resourceLogs": [', "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"\x00", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"17", "not an OTLP request"),
        (b'[[{"resourceLogs": []}]]', "not an OTLP request"),
        (b'{"foo": 1}', "neither an OTLP request nor"),
        (b'{"session_id": 5, "masque": "M", "donned_at": "2026-06-01T12:00:00Z"}', "session_id"),
        (b'{"session_id": "s", "masque": "M", "donned_at": "noon"}', "donned_at"),
        (b'{"session_id": "s", "donned_at": "2026-06-01T12:00:00Z"}', "masque"),
    ],
)
def test_a_bad_line_is_quarantined_with_its_reason_and_the_others_are_read(
    bad: bytes, reason: str
) -> None:
    good = line(claude("user_prompt"))
    batch = read(good, bad + b"\n", good.replace(b"user_prompt", b"compaction"))
    assert batch.events.height == 2
    (quarantined,) = batch.quarantined
    assert reason in quarantined.reason
    assert (quarantined.offset, quarantined.length_bytes) == (len(good), len(bad))
    assert (batch.counts.lines, batch.counts.quarantined) == (3, 1)


def test_equal_bad_lines_are_kept_once_with_their_number() -> None:
    batch = read(b"bad\n", b"bad\n", b"worse\n")
    assert [
        (quarantined_line.offset, quarantined_line.lines) for quarantined_line in batch.quarantined
    ] == [(0, 2), (8, 1)]
    assert (batch.counts.lines, batch.counts.quarantined) == (3, 3)


HALVES = (rb"s\ud800", rb"s\udc00")


def test_a_line_with_half_a_surrogate_pair_is_read() -> None:
    """JavaScript leaves one when it truncates a string within an emoji."""
    cut = line(claude("user_prompt", prompt="hello X")).replace(b"hello X", b"hello \\ud83d")
    assert read_one(cut)["content"] == r"hello \ud83d"


def test_sessions_that_differ_in_halves_of_surrogate_pairs_are_two() -> None:
    halves = [line(claude("user_prompt", session__id="X")).replace(b"X", half) for half in HALVES]
    assert read(*halves).events["session_id"].to_list() == [r"s\ud800", r"s\udc00"]


def test_a_record_with_too_many_attributes_is_quarantined() -> None:
    record = claude("user_prompt", **{f"a{i}": i for i in range(101)})
    batch = read(line(record, claude("compaction")))
    assert batch.events["source_event_name"].to_list() == ["compaction"]
    assert "103 attributes, limit is 100" in batch.quarantined[0].reason


def test_an_attribution_line_becomes_a_don_and_a_doff() -> None:
    attribution = {
        "session_id": SESSION,
        "masque": "Codesmith",
        "donned_at": "2026-06-01T12:00:00Z",
        "doffed_at": "2026-06-01T13:00:00Z",
    }
    batch = read(json.dumps(attribution).encode())
    rows = batch.events.select("event_name", "masque", "session_id", "organization_id").rows()
    assert rows == [
        ("masque_don", "Codesmith", SESSION, None),
        ("masque_doff", "Codesmith", SESSION, None),
    ]
    assert batch.events["event_time"].dt.hour().to_list() == [12, 13]


def test_a_masque_record_of_any_program_is_a_don() -> None:
    record = claude("masque.don", masque__name="Codesmith")
    record["body"] = {"stringValue": "masque.don"}
    event = read_one(json.dumps(request([record], scope="hooks")).encode())
    assert (event["event_name"], event["masque"]) == ("masque_don", "Codesmith")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(
    "resourceLogs resource attributes scopeLogs scope logRecords key value stringValue intValue"
    " doubleValue boolValue arrayValue kvlistValue values body timeUnixNano name session_id".split()
)
requests = st.recursive(
    json_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=30,
)


@given(st.one_of(st.binary(max_size=200), requests.map(lambda value: json.dumps(value).encode())))
def test_no_content_of_a_line_affects_the_other_lines(noise: bytes) -> None:
    good = line(claude("user_prompt"))
    batch = read(good, noise.replace(b"\n", b" ") + b"\n", good)
    assert batch.events.filter(pl.col("session_id") == SESSION).height >= 2
