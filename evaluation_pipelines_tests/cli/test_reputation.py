"""``reputation``: agent ratings and identities."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from evaluation_pipelines.cli.reputation import sparkline
from evaluation_pipelines.reputation.domain.signals import identity_id
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.servers.clickhouse_databases import PASSWORD

NOW = datetime.now(UTC)


def evaluations(agent: str, number: int, organization: str = "default") -> bytes:
    """Return passed evaluations of an agent, a minute apart, the newest a minute ago."""
    return b"".join(
        msgspec.json.encode(
            {
                "evaluation_id": f"{organization}-{agent}-{index}",
                "agent_id": agent,
                "organization_id": organization,
                "evaluated_at": (NOW - timedelta(minutes=index + 1)).isoformat(),
                "passed": True,
                "latency_ms": 50,
                "source": "gate",
                "model": "aspen" if index else None,
            }
        )
        + b"\n"
        for index in range(number)
    )


def payment(agent: str, delta: float) -> bytes:
    signal = {
        "timestamp": (NOW - timedelta(days=1)).isoformat(),
        "event_type": "payment_completed",
        "reference_type": "transaction",
        "reference_id": f"t{delta}",
        "agent_id": agent,
        "score_delta": delta,
    }
    return msgspec.json.encode(signal) + b"\n"


@pytest.fixture
def program(program: Program, one_clickhouse_dsn: str) -> Program:
    """The program with a database of its own in an engine that stays open: opening takes long."""
    program.set("EVAL_CLICKHOUSE_DSN", one_clickhouse_dsn)
    return program


def test_scores_of_files_are_shown_as_text_as_json_and_as_a_leaderboard(
    program: Program,
) -> None:
    program.land("evaluations/a.jsonl", evaluations("scout", 50) + evaluations("novice", 12))
    bad = payment("scout", 3.0) + b"\x1b[31mno json\n" + b"{}\n" * 3
    program.land("signals/a.jsonl", payment("scout", 1.0) + payment("scout", 0.6) + bad)
    updated = program("reputation", "update")
    assert updated.out == (
        "reputation: 0 sessions on 0 dates: 0 new or changed, 0 withdrawn\n"
        "  evaluations/a.jsonl: 62 of 62 lines loaded\n"
        "  signals/a.jsonl: 2 of 7 lines loaded\n"
        "  1 identity and 2 agents rated\n"
    )
    assert updated.err.splitlines() == [
        "warning: signals/a.jsonl, line 3: Expected `float` <= 1.0 - at `$.score_delta`",
        "warning: signals/a.jsonl, line 4: JSON is malformed: invalid character (byte 0)",
        "warning: signals/a.jsonl, line 5: Object missing required field `timestamp`",
        "warning: signals/a.jsonl: 2 more invalid lines: see quarantine list",
    ]
    # Unchanged files are not loaded again.
    assert "jsonl" not in (again := program("reputation", "update")).out + again.err

    # 400 + 250 * (1 - 50 / 100) + 200 + 150 * 50 / 500 = 740
    shown = program("reputation", "list", "scout")
    assert "  rating           740 of 1000, active\n" in shown.out
    # Beta(51, 1) has the quantiles 0.05^(1/51) = 0.943 and 0.95^(1/51) = 0.999.
    assert "  passed           100% of 50 evaluations (90% interval 94% to 100%)\n" in shown.out
    assert "  before           unknown (30 days ago)\n" in shown.out
    assert "  streak           50 passes in a row, up to the latest evaluation\n" in shown.out
    assert "  by model         aspen: 100% of 49\n" in shown.out
    assert "  by model         unknown model: 100% of 1\n" in shown.out
    # 0.35 * (1 + 0.6) / 2 = 0.28; of the known categories (1 + 0.6) / 2
    assert "  overall          +0.280  ············▅  (13 weeks, -1 to 1)\n" in shown.out
    assert "  task_quality     no signal\n  economic         +0.800\n" in shown.out
    assert "  known categories +0.800\n  before           unknown and unknown" in shown.out
    assert "2 in 90 days, 2 positive, 0 negative, confidence 0.02\n" in shown.out
    novice = program("reputation", "list", "novice")
    assert "  rating           12/50, calibrating\n" in novice.out
    assert "no signal in the last 90 days" in novice.out
    board = program("reputation", "list", "--limit", "1")
    assert [row[:3] for row in board.table()[:1]] == [["scout", "default", "740"]]
    assert "1 other: evaluation-pipelines reputation list --limit 2\n" in board.out


@pytest.mark.parametrize(
    ("table", "code", "agents"),
    [("agent_scores", 1, []), ("reputation_scores", 4, ["scout"])],
)
def test_without_an_export_the_list_has_what_is_left_and_says_what_to_do(
    program: Program, table: str, code: int, agents: list[str]
) -> None:
    program.land("evaluations/a.jsonl", evaluations("scout", 50))
    program("reputation", "update")
    (path,) = (program.folder / "data/lake" / table).rglob("*.parquet")
    path.unlink()

    found = program("reputation", "list", "--format", "json")
    assert found.code == program("reputation", "list").code == code
    assert [item["agent_id"] for item in json.loads(found.out)["items"]] == agents
    assert found.err.endswith("is missing. Make it again: evaluation-pipelines reputation update\n")
    assert program("reputation", "update").code == 0
    assert program("reputation", "list").code == 0


def test_an_unknown_agent_or_identity_has_a_record_of_zeros(program: Program) -> None:
    program("reputation", "update")
    unknown = program("reputation", "list", "un\x1bknown")
    assert unknown.code == 0
    assert unknown.out.startswith("un\N{REPLACEMENT CHARACTER}known of default\n")
    assert "  rating           0/50, new\n  evaluations      none with" in unknown.out
    who = "00000000-0000-0000-0000-000000000001"
    record = json.loads(program("reputation", "list", "--identity", who, "--format", "json").out)
    assert (record["identity_id"], record["overall_score"], record["total_events"]) == (who, 0, 0)
    assert "no signal" in program("reputation", "list", "--identity", who).out


def test_an_agent_of_several_organizations_needs_the_organization(program: Program) -> None:
    program.land("evaluations/a.jsonl", evaluations("x", 1, "left") + evaluations("x", 2, "right"))
    program("reputation", "update")
    unclear = program("reputation", "list", "x")
    assert unclear.code == 2
    assert "x exists in left, right" in unclear.err
    assert (
        "  rating           2/50"
        in program("reputation", "list", "x", "--organization", "right").out
    )
    other = program("reputation", "list", "x", "--organization", "up", "--format", "json").out
    assert json.loads(other)["organization_id"] == "up"
    both = program("reputation", "list", "x", "--identity", str(identity_id("left", "x")))
    assert both.code == 2


def test_errors_about_the_server_or_the_dsn_do_not_contain_the_password(program: Program) -> None:
    program.set("EVAL_CLICKHOUSE_PATIENCE_S", "0")
    program.set("EVAL_CLICKHOUSE_DSN", "clickhouse://me:topsecret@127.0.0.1:1/db")
    # In a separate process, to see everything that reaches the terminal.
    down = program.process("reputation", "list", "--tables")
    assert (down.code, down.out, down.err.count("\n")) == (1, "", 1)
    assert down.err.startswith("error: ClickHouse at clickhouse://me@127.0.0.1:1/db could not be")
    program.set("EVAL_CLICKHOUSE_DSN", "mysql://me:topsecret@127.0.0.1/db")
    wrong = program("reputation", "list", "--tables")
    assert wrong.code == 1
    assert "EVAL_CLICKHOUSE_DSN" in wrong.err
    program.set("EVAL_CLICKHOUSE_DSN", "clickhouse://me:topsecret@127.0.0.1:1/db?x=1")
    option = program.process("reputation", "list", "--tables")
    assert (option.code, option.err.count("\n")) == (1, 1)
    assert "options after its question mark" in option.err
    assert "topsecret" not in down.err + wrong.err + option.err


def test_lists_are_of_one_organization_in_any_format_and_lines_are_retracted(
    program: Program,
) -> None:
    review = {
        "timestamp": "2026-11-20T12:00:00Z",
        "event_type": "review_positive",
        "reference_type": "attestation",
        "reference_id": "r",
        "agent_id": "scout",
        "event_id": "00000000-0000-0000-0000-000000000007",
    }
    gate = {"agent_id": "scout", "evaluated_at": "2026-11-20T12:00:00Z", "source": "gate"}
    gates = [
        {**gate, "evaluation_id": str(n), "organization_id": name, "passed": True}
        for name in ("o1", "o2")
        for n in range(3)
    ]
    program.land("signals/a.jsonl", f"{json.dumps(review)}\nbad\n".encode())
    program.land("evaluations/b.jsonl", "\n".join(map(json.dumps, gates)).encode() + b"\n")
    program("reputation", "update")
    listed = program("reputation", "list", "--format", "json").items()
    assert [(row["organization_id"], row["eval_count"]) for row in listed] == [
        ("o1", 3),
        ("o2", 3),
    ]
    one = program("reputation", "list", "--organization", "o2", "--format", "csv").out
    assert [line.split(",")[:2] for line in one.splitlines()[1:]] == [["o2", "scout"]]
    (identity,) = program("reputation", "list", "--identities").table()
    assert identity[1:5] == ["scout", "default", "+0.320", "1"]
    assert program("reputation", "list", "--identities", "--organization", "o1").table() == []
    (named,) = program("reputation", "list", "--identities", "--organization", "default").table()
    assert named[0] == identity[0]
    quarantine = program("quarantine", "list").out
    assert "signals/a.jsonl" in quarantine
    assert "malformed" in quarantine

    alone = program("reputation", "retract", "signals", review["event_id"], "--organization", "o2")
    assert (alone.code, "--organization requires --agent" in alone.err) == (2, True)
    assert program("reputation", "retract", "signals", review["event_id"]).code == 0
    retracted = program("reputation", "retract", "evaluations", "0", "--agent", "scout")
    assert "no such id" in retracted.out  # of organization default
    words = ("reputation", "retract", "evaluations", "0", "--agent", "scout")
    assert program(*words, "--organization", "o1").out == "retracted 1 evaluation\n"
    assert program("reputation", "list", "--identities").table()[0][3:5] == ["+0.000", "0"]
    counts = program("reputation", "list", "--format", "json").items()
    assert sorted(count["eval_count"] for count in counts) == [2, 3]


def test_the_same_commands_work_on_a_server(
    program: Program, clickhouse_over_http_database: str
) -> None:
    program.set("EVAL_CLICKHOUSE_DSN", clickhouse_over_http_database)
    empty = program("reputation", "list", "--tables")
    assert (empty.code, empty.out) == (1, "")
    assert "ClickHouse lacks 0001_create_reputation_events" in empty.err
    program.land("evaluations/a.jsonl", evaluations("scout", 1))
    updated = program("reputation", "update")
    assert "0 identities and 1 agent rated" in updated.out
    assert PASSWORD not in empty.err + updated.out + updated.err
    assert "1/50" in program("reputation", "list", "scout").out
    assert not (program.folder / "data" / "clickhouse").exists()


def test_bars_rise_with_the_values_and_unknown_ones_are_dots() -> None:
    # Eight bars over -1 to 1: 0 is at 3.5, which rounds to the even 4.
    assert sparkline([-1.0, None, 0.0, 1.0], -1, 1) == "▁·▅█"


def test_values_beyond_the_limits_are_shown_at_them() -> None:
    assert sparkline([-3.0, 3.0], -1, 1) == "▁█"
