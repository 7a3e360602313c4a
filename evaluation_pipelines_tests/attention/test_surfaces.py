"""Terminal, pages, digest and alerts name the same items in the same words."""

import html
import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from time import monotonic, sleep
from typing import Any, TypeAlias

import polars as pl
from starlette.testclient import TestClient

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.checks import check_alerts
from evaluation_pipelines.attention.domain.messages import JUDGE_DOWN, reported
from evaluation_pipelines.schemas import MODEL_REGRESSIONS
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines_tests.attention.domain.test_items import REGRESSED
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.receiver import open_receiver
from evaluation_pipelines_tests.service.clients import ADDRESS
from evaluation_pipelines_tests.world import claude, line

LOG = logging.getLogger("checks")
OLD = date(2026, 1, 5)
START = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""Time of what the world calls second 0."""

Shown: TypeAlias = list[tuple[str, str, list[str]]]
"""State, sentence and lines of each item."""


def happen(program: Program, now: datetime) -> None:
    """Let a program fall silent after a failed session, and more go wrong."""
    ago = (now - timedelta(hours=120) - START).total_seconds()
    failed = line(
        claude("user_prompt", ago, session__id="s"),
        claude("api_error", ago + 5, session__id="s", model="aspen", error="overloaded"),
    )
    program.land("logs.jsonl", failed + b"broken\n")
    program("ingest")
    program("build")
    with open_stores(load_settings()) as stores:
        queue = RebuildQueue(stores.ledger)
        queue.touch({OLD}, now)
        for _ in range(4):
            queue.mark_failed(OLD, 1, "torn <page>", now)
        sample = AuditSample(now.date(), "default", "t#baseline-1", "calls", "hash", now)
        OverrideStore(stores.ledger).add_samples([sample])
        AlertStore(stores.ledger).put(reported(JUDGE_DOWN, "judge", "401"), now)
        row = dict.fromkeys(MODEL_REGRESSIONS.schema.names()) | REGRESSED | {"state": "alert"}
        stores.lake.write_whole(pl.DataFrame([row], MODEL_REGRESSIONS.schema), MODEL_REGRESSIONS)
        check_alerts(stores, now, LOG)


def of_json(items: Sequence[Mapping[str, Any]]) -> Shown:
    def lines(item: Mapping[str, Any]) -> list[str]:
        parts = [": ".join(filter(None, (e["name"], e["seen"]))) for e in item["parts"]]
        return [*parts, *([item["advice"]] if item["advice"] else [])]

    def title(item: Mapping[str, Any]) -> str:
        since = (item["since"] or "").replace("T", " ").removesuffix(":00")[:16]
        return f"{item['seen']} (since {since})" if since else item["seen"]

    return [(e["state"], title(e), lines(e)) for e in items if e["state"] != "ok"]


def of_terminal(out: str) -> Shown:
    """Return the items at the beginning of an output."""
    found: Shown = []
    for row in out.splitlines():
        if named := re.match(r"(failed|warning|task): (.*)", row):
            found.append((named[1], named[2], []))
        elif row.startswith("  "):
            found[-1][2].append(row[2:])
        else:
            break
    return found


def of_overview(page: str) -> Shown:
    listed = page.partition('id="needs"')[2].partition("</section>")[0]
    found: Shown = []
    for state, item in re.findall(r'<li class="(\w+)">(.*?)</li>', listed, re.DOTALL):
        title, _, rest = item.partition('<span class="small">')
        remedy, _, details = rest.partition("</span>")
        spans = re.findall(r'<span class="small">(.*?)</span>', details, re.DOTALL)
        spans.append(remedy)
        said = re.sub(r"<span [^>]*>since (.*?)</span>", r"(since \1)", title)
        found.append((state, text_of(said), [text_of(span) for span in spans]))
    return found


def text_of(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).split())


def client_of(stores: Stores) -> TestClient:
    app = create_app(Installation(stores, KeyRing(stores.ledger)))
    return TestClient(app, ADDRESS, client=("127.0.0.1", 50_000))


def test_every_surface_names_the_same_items_in_the_same_words(program: Program) -> None:
    now = datetime.now(UTC)
    with open_receiver() as receiver:
        program.set("EVAL_ALERT_WEBHOOK_URL", receiver.url)
        happen(program, now)
        alerts = receiver.texts
    items = json.loads(program("doctor", "--offline", "--format", "json").out)["items"]
    shown = of_json(items)
    kinds = [item["kind"] for item in items if item["state"] != "ok"]
    assert {"parked", "stale", "quarantine", "regression", "quality_risk"} <= {*kinds}
    assert {"judge_down", "reviews", "gaps"} <= {*kinds}
    assert of_terminal(program("doctor", "--offline").out) == shown
    assert of_json(json.loads(program("status", "--format", "json").out)["attention"]) == shown
    assert of_terminal(program("status").out) == shown
    with open_stores(load_settings()) as stores:
        client, deadline = client_of(stores), monotonic() + 60
        while "being checked" in (overview := client.get("/").text) and monotonic() < deadline:
            sleep(0.1)
        doctor = client.get("/operations/doctor").text
    on_page = of_overview(overview)  # a link in place of the command
    assert [item[:2] for item in on_page] == [item[:2] for item in shown]
    for (*_, seen), (*_, listed_lines) in zip(on_page, shown, strict=True):
        assert seen[:-1] == listed_lines[:-1]
        assert seen[-1]
        assert listed_lines[-1].startswith(seen[-1])
    assert overview.count('<li class="') == len(re.findall(r'<li class="\w+">\s*<a ', overview))
    table = text_of(doctor.partition("</table>")[0]).replace("Command", " ")
    for _, title, lines in shown:
        said, _, since = title.partition(" (since ")
        assert said in table
        assert f"since {since.rstrip(')')}" in table
        assert all(line in table for line in lines)
    digest = program("digest").out
    listed = digest.partition("\nNeeds attention\n")[2].partition("\n\n")[0]
    assert listed.splitlines() == [f"- {title}" for _, title, _ in shown]
    sent = {"parked", "stale", "regression"}
    of_kind = zip(kinds, shown, strict=True)
    named = {item[1].partition(" (since")[0]: item[2] for kind, item in of_kind if kind in sent}
    told = {title: lines for title, *lines in map(str.splitlines, alerts) if title in named}
    assert {title: list(map(html.unescape, lines)) for title, lines in told.items()} == named
