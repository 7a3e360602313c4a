"""Events of session windows: those from which the sessions were built."""

from collections.abc import Sequence

import polars as pl
import pytest

from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.session_windows import (
    by_window,
    read_session_events,
    read_windows,
    window_key,
)
from evaluation_pipelines.schemas import AGENT_EVENTS, EVENTS_WITH_TEXTS
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.telemetry.captures import RECORDED, Capture
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line


def masque(name: str, second: float, masque: str) -> bytes:
    """Return a landing line with a prompt of a session under a masque."""
    prompt = f"{masque} asks at {second:g}"
    return line(claude("user_prompt", second, session__id=name, prompt=prompt), masque__name=masque)


def events_of(
    workplace: Workplace, windows: Sequence[Window]
) -> dict[tuple[str, str], pl.DataFrame]:
    """Return the events of windows of any dates."""
    read = [
        read_session_events(workplace.lake, day, windows)
        for day in sorted({window.session_date for window in windows})
    ]
    return by_window(pl.concat([EVENTS_WITH_TEXTS.to_frame(), *read]), windows)


def texts(workplace: Workplace) -> dict[str, list[str]]:
    """Return the prompts of each window in order."""
    lake = workplace.lake
    days = lake.partitions(AGENT_EVENTS)
    windows = read_windows(workplace.stores, days, NOW)
    found = events_of(workplace, windows)
    assert found.keys() == {window_key(window) for window in windows}
    prompts = {key: [text for text in events["content"] if text] for key, events in found.items()}
    return {f"{organization}: {key}": prompt for (organization, key), prompt in prompts.items()}


def test_each_window_has_its_own_events_and_no_others(workplace: Workplace) -> None:
    fill(
        workplace,
        masque("s1", 0, "Codesmith"),
        masque("s1", 60, "Scout"),
        masque("s1", 120, "Codesmith"),
        masque("s2", 30, "Scout"),
    )

    assert texts(workplace) == {
        "default: s1#codesmith-1": ["Codesmith asks at 0"],
        "default: s1#scout-1": ["Scout asks at 60"],
        "default: s1#codesmith-2": ["Codesmith asks at 120"],
        "default: s2#scout-1": ["Scout asks at 30"],
    }


def test_an_id_that_two_organizations_use_is_two_sessions(workplace: Workplace) -> None:
    fill(
        workplace,
        line(
            claude("user_prompt", 0, session__id="s1", prompt="ours"),
            organization__id="globex",
        ),
        line(
            claude("user_prompt", DAY_S, session__id="s1", prompt="theirs"),
            organization__id="acme",
        ),
    )

    assert texts(workplace) == {
        "acme: s1#baseline-1": ["theirs"],
        "globex: s1#baseline-1": ["ours"],
    }


def test_a_window_with_new_events_is_missing(workplace: Workplace) -> None:
    fill(workplace, session_with_texts("s1"), session_with_texts("s2"))
    days = workplace.lake.partitions(AGENT_EVENTS)
    before = read_windows(workplace.stores, days, NOW)
    fill(workplace, line(claude("user_prompt", 600, session__id="s1", prompt="More.")))

    assert events_of(workplace, before).keys() == {("default", "s2#baseline-1")}


def test_events_that_name_no_organization_stay_in_their_window(workplace: Workplace) -> None:
    fill(workplace, session_with_texts("s1"))
    windows = read_windows(workplace.stores, workplace.lake.partitions(AGENT_EVENTS), NOW)
    events = read_session_events(workplace.lake, windows[0].session_date, windows)
    nameless = events.with_columns(
        organization_id=pl.when(pl.col("event_name") != "user_prompt").then("organization_id")
    )
    assert 0 < nameless["organization_id"].null_count() < nameless.height
    of_window = by_window(nameless, windows)["default", "s1#baseline-1"]
    assert of_window["event_id"].to_list() == events.sort("event_time")["event_id"].to_list()


@pytest.mark.parametrize("cli", RECORDED)
def test_the_windows_of_captured_telemetry_have_all_its_events(
    workplace: Workplace, cli: str
) -> None:
    fill(workplace, Capture(cli).file("as sent").read_bytes())
    days = workplace.lake.partitions(AGENT_EVENTS)
    windows = read_windows(workplace.stores, days, NOW)
    found = events_of(workplace, windows)

    ids = [event_id for events in found.values() for event_id in events["event_id"]]
    synthetic = ("masque_don", "masque_doff")
    events = workplace.events()
    sent = [row["event_id"] for row in events.to_dicts() if row["event_name"] not in synthetic]
    assert sorted(ids) == sorted(sent)
    prompts = {key: (frame["event_name"] == "user_prompt").sum() for key, frame in found.items()}
    rows = workplace.sessions().to_dicts()
    assert prompts == {(row["organization_id"], row["session_key"]): row["prompts"] for row in rows}
