"""Signals of other systems: loaded once, bad lines quarantined, good ones kept."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evaluation_pipelines.reputation import external_signals
from evaluation_pipelines.reputation.domain.signals import identity_id
from evaluation_pipelines.reputation.external_signals import (
    changed_files,
    load_external_signals,
    skipped_files,
)
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.storage.clickhouse import open_clickhouse
from evaluation_pipelines_tests.servers.clickhouse_databases import database
from evaluation_pipelines_tests.servers.landing_bucket import Bucket
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

EVENT = "00000000-0000-0000-0000-000000000007"
REVIEW = {
    "timestamp": "2026-11-20T12:00:00Z",
    "event_type": "review_positive",
    "reference_type": "attestation",
    "reference_id": "review-1",
    "agent_id": "scout",
}
GATE = {
    "evaluation_id": "gate-1",
    "agent_id": "scout",
    "evaluated_at": "2026-11-20T12:00:00+01:00",
    "passed": True,
    "source": "gate",
}


def lines(*objects: dict[str, Any]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in objects)


def load(
    workplace: Workplace, reputation_store: ReputationStore, minutes: int = 0
) -> list[dict[str, Any]]:
    now = NOW + timedelta(minutes=minutes)
    return load_external_signals(workplace.stores, reputation_store, now).to_dicts()


def test_good_lines_load_and_bad_ones_are_told_with_their_line_and_reason(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    bad = b'{"event_type": "payment_failed"}\nno json at all\n'
    far = {**REVIEW, "score_delta": 1.5}
    workplace.land("signals/a.jsonl", lines(REVIEW) + bad + b"\n\n" + lines(far))
    workplace.land("evaluations/b.jsonl", lines(GATE, {**GATE, "source": "session"}))

    evaluations, signals = load(workplace, reputation_store)

    assert (signals["path"], signals["lines"], signals["accepted"]) == ("signals/a.jsonl", 4, 1)
    assert [reject["line"] for reject in signals["rejects"]] == [2, 3, 6]
    assert "timestamp" in signals["rejects"][0]["reason"]
    assert "<= 1" in signals["rejects"][2]["reason"]
    assert (evaluations["accepted"], evaluations["rejected"]) == (1, 1)
    # 'review_positive' is worth 0.8 where the signal says nothing else; 0.40 * 0.8 = 0.32.
    row = reputation_store.scores_as_of(NOW).to_dicts()[0]
    assert row["identity_id"] == str(identity_id("default", "scout"))
    assert row["overall_score"] == pytest.approx(0.32)
    assert reputation_store.evaluations(NOW).to_dicts()[0]["evaluated_at"].hour == 11


def test_a_file_that_grows_is_loaded_again_and_nothing_counts_twice(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    workplace.land("signals/a.jsonl", lines(REVIEW) + b'{"timestamp": "2026-')
    first = load(workplace, reputation_store)[0]
    assert (first["lines"], first["accepted"], first["rejected"]) == (1, 1, 0)

    rest = msgspec.json.encode({**REVIEW, "reference_id": "review-2"})
    workplace.land("signals/a.jsonl", lines(REVIEW) + rest + b"\n" + lines(REVIEW))
    second = load(workplace, reputation_store, minutes=1)[0]
    assert (second["accepted"], second["repeated"]) == (3, 1)
    assert reputation_store.scores_as_of(NOW)["total_events"].to_list() == [2]


def test_a_link_that_leads_out_of_the_landing_folder_is_not_followed(
    workplace: Workplace, reputation_store: ReputationStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(lines(REVIEW))
    workplace.land("signals/a.jsonl", lines(REVIEW))
    (workplace.landing.root / "signals" / "b.jsonl").symlink_to(outside)
    assert [file["path"] for file in load(workplace, reputation_store)] == ["signals/a.jsonl"]


def test_a_file_that_is_gone_stays_in_the_list_and_its_signals_stay_loaded(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    path = workplace.land("signals/a.jsonl", lines(REVIEW))
    load(workplace, reputation_store)
    path.unlink()
    assert [file["path"] for file in load(workplace, reputation_store, minutes=1)] == [
        "signals/a.jsonl"
    ]
    assert reputation_store.scores_as_of(NOW)["total_events"].to_list() == [1]


def test_files_are_loaded_again_into_another_clickhouse(
    workplace: Workplace, reputation_store: ReputationStore, embedded_engine: str
) -> None:
    workplace.land("signals/a.jsonl", lines(REVIEW))
    load(workplace, reputation_store)
    assert changed_files(workplace.stores) == []
    with database(embedded_engine) as dsn, open_clickhouse(dsn) as clickhouse:
        other = ReputationStore(clickhouse)
        other.migrate(NOW + timedelta(hours=1))
        load(workplace, other, minutes=61)
        assert other.scores_as_of(NOW)["total_events"].to_list() == [1]


def test_files_of_a_bucket_have_the_rows_of_those_of_a_folder(
    workplace: Workplace,
    reputation_store: ReputationStore,
    embedded_engine: str,
    bucket: Bucket,
    tmp_path: Path,
) -> None:
    files = {
        "signals/a.jsonl": lines(REVIEW, {**REVIEW, "score_delta": 1.5}) + b"no json at all\n",
        "signals/b.jsonl": lines({**REVIEW, "reference_id": "review-2"}),
        "signals/skipped.jsonl.gz": b"not read",
        "evaluations/c.jsonl": lines(GATE, {**GATE, "source": "session"}),
        "logs.jsonl": b"telemetry\n",
    }
    for name, content in files.items():
        workplace.land(name, content)
        bucket.put(name, content)
    left_out = ("modified_at", "store_made_at", "loaded_at")
    of_folder = load_external_signals(workplace.stores, reputation_store, NOW).drop(left_out)
    with (
        open_workplace(tmp_path / "remote", landing_dir=bucket.url) as remote,
        database(embedded_engine) as dsn,
        open_clickhouse(dsn) as clickhouse,
    ):
        other = ReputationStore(clickhouse)
        other.migrate(NOW)
        assert len(changed_files(remote.stores)) == len(of_folder)
        of_bucket = load_external_signals(remote.stores, other, NOW).drop(left_out)
        assert of_bucket.equals(of_folder)
        assert of_bucket.select("accepted", "rejected").sum().row(0) == (3, 3)
        for read in (ReputationStore.scores_as_of, ReputationStore.evaluations):
            assert read(other, NOW).equals(read(reputation_store, NOW))
        assert changed_files(remote.stores) == []
        assert len(skipped_files(remote.stores)) == 1

        # Another object in the place of one: its rows count once.
        bucket.put("evaluations/c.jsonl", lines(GATE, {**GATE, "evaluation_id": "gate-2"}))
        assert [file.path for file in changed_files(remote.stores)] == ["evaluations/c.jsonl"]
        load_external_signals(remote.stores, other, NOW + timedelta(minutes=1))
        assert other.evaluations(NOW + timedelta(minutes=1)).height == 2


def test_of_two_lines_with_one_id_the_later_one_counts_also_over_files_and_batches(
    workplace: Workplace, reputation_store: ReputationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_signals, "_ROWS_AT_A_TIME", 2)
    one = {**GATE, "evaluated_at": "2026-11-19T12:00:00Z"}
    others = [{**GATE, "evaluation_id": f"gate-{number}"} for number in range(2, 5)]
    workplace.land("evaluations/a.jsonl", lines(GATE, *others, {**one, "model": "first"}))
    workplace.land("evaluations/b.jsonl", lines({**one, "model": "second"}))
    load(workplace, reputation_store)
    found = reputation_store.evaluations(NOW).select("evaluation_id", "model").rows()
    assert sorted(found, key=str) == [
        ("gate-1", "second"),
        ("gate-2", None),
        ("gate-3", None),
        ("gate-4", None),
    ]


BY_ID = {**REVIEW, "event_id": "00000000-0000-0000-0000-000000000007"}


@pytest.mark.parametrize(
    ("folder", "said", "retraction", "name"),
    [
        # Its file is read before that of the line, or after it.
        ("signals", REVIEW, {**REVIEW, "retracted": True}, "a"),
        ("signals", BY_ID, {"event_id": BY_ID["event_id"], "retracted": True}, "z"),
        (
            "signals",
            BY_ID,
            {"event_id": BY_ID["event_id"], "agent_id": "scout", "retracted": True},
            "a",
        ),
        (
            "evaluations",
            GATE,
            {"evaluation_id": "gate-1", "agent_id": "scout", "retracted": True},
            "z",
        ),
    ],
)
def test_a_retracted_line_is_gone_for_good(
    workplace: Workplace,
    reputation_store: ReputationStore,
    folder: str,
    said: dict[str, Any],
    retraction: dict[str, Any],
    name: str,
) -> None:
    def counted() -> int:
        events = reputation_store.scores_as_of(NOW)["total_events"].sum()
        return int(events) + reputation_store.evaluations(NOW).height

    workplace.land(f"{folder}/m.jsonl", lines(said))
    load(workplace, reputation_store)
    assert counted() == 1
    workplace.land(f"{folder}/{name}.jsonl", lines(retraction))
    loaded = {row["path"]: row for row in load(workplace, reputation_store, minutes=1)}
    assert (loaded[f"{folder}/{name}.jsonl"]["retracted"], counted()) == (1, 0)
    # The file with the line is read again.
    workplace.land(f"{folder}/m.jsonl", lines(said) + b"\n", "ab")
    load(workplace, reputation_store, minutes=2)
    assert counted() == 0


def test_a_correction_counts_however_the_file_with_the_wrong_line_grows(
    workplace: Workplace, reputation_store: ReputationStore, embedded_engine: str
) -> None:
    review = {**REVIEW, "event_id": EVENT}
    workplace.land("signals/zz-corrections.jsonl", lines({**review, "score_delta": 1}))
    load(workplace, reputation_store)
    workplace.land("signals/log.jsonl", lines({**review, "score_delta": -1}))
    load(workplace, reputation_store, minutes=1)
    corrected = reputation_store.scores_as_of(NOW)["overall_score"].item()
    assert corrected > 0
    workplace.land("signals/log.jsonl", b"\n", "ab")
    load(workplace, reputation_store, minutes=2)
    assert reputation_store.scores_as_of(NOW)["overall_score"].item() == corrected
    with database(embedded_engine) as dsn, open_clickhouse(dsn) as clickhouse:
        other = ReputationStore(clickhouse)
        other.migrate(NOW + timedelta(hours=1))
        load(workplace, other, minutes=61)
        assert other.scores_as_of(NOW)["overall_score"].item() == corrected


def test_files_that_are_not_read_are_named(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    names = ["a.ndjson", "b.jsonl.gz", "c.jsonl.1", "sub/d.jsonl", os.fsdecode(b"s\xff.jsonl")]
    for name in names:
        workplace.land(f"signals/{name}", lines(REVIEW))
    workplace.land("signals/read.jsonl", lines(REVIEW))
    loaded = load(workplace, reputation_store)

    assert [file["path"] for file in loaded] == ["signals/read.jsonl"]
    assert [file.path for file in skipped_files(workplace.stores)] == [
        *(f"signals/{name}" for name in names[:3]),
        "signals/sub/d.jsonl",
        "signals/s\ufffd.jsonl",
    ]


def test_a_line_that_was_retracted_before_is_counted_as_withheld(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    workplace.land("signals/a.jsonl", lines({"event_id": EVENT, "retracted": True}))
    load(workplace, reputation_store)
    workplace.land("signals/b.jsonl", lines({**REVIEW, "event_id": EVENT}, REVIEW))
    row = load(workplace, reputation_store, minutes=1)[-1]
    assert (row["path"], row["accepted"], row["withheld"], row["retracted"]) == (
        *("signals/b.jsonl", 2, 1, 0),
    )


def test_a_byte_order_mark_is_no_part_of_the_first_line(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    workplace.land("signals/a.jsonl", b"\xef\xbb\xbf" + lines(REVIEW))
    (row,) = load(workplace, reputation_store)
    assert (row["accepted"], row["rejected"]) == (1, 0)


def test_a_line_over_the_limit_and_a_last_one_without_an_end_are_told(
    reputation_store: ReputationStore, tmp_path: Path
) -> None:
    with open_workplace(tmp_path / "other", max_line_bytes=400) as workplace:
        long = {**REVIEW, "attributes": {"a": "b" * 500}}
        workplace.land("signals/a.jsonl", lines(long, REVIEW) + b'{"times')
        (row,) = load(workplace, reputation_store)
    assert (row["lines"], row["accepted"], row["rejected"], row["unfinished"]) == (2, 1, 1, True)
    assert row["rejects"][0]["reason"] == "too long"
