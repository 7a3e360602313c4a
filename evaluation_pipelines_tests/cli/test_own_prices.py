"""Own prices in ``data/prices.yaml``, one of them wrong, from ``ingest`` to the session."""

import json

from evaluation_pipelines_tests.program import Program

PRICES = """
prices:
  - model: birch-4-mini
    usd_per_million: {input: 2, output: 8}
  - model: aspen-4
    usd_per_million: {input: a, output: 8}
"""


def request(session: str, model: str) -> dict[str, object]:
    sent = {
        "gen_ai.conversation.id": session,
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 100,
    }
    return {
        "timeUnixNano": "1780315200000000000",
        "eventName": "gen_ai.client.inference.operation.details",
        "attributes": [
            {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
            for key, value in sent.items()
        ],
    }


def test_an_own_price_counts_and_a_wrong_one_is_named(program: Program) -> None:
    records = [request("priced", "birch-4-mini"), request("unknown", "aspen-4")]
    line = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    program.land("logs.jsonl", json.dumps(line).encode() + b"\n")
    (program.folder / "data/prices.yaml").write_text(PRICES)
    wrong = "data/prices.yaml, entry 2: usd_per_million.input: Input should be a valid decimal"

    ran = program("ingest")
    assert ran.code == 0
    assert f"warning: {wrong}" in ran.err
    assert wrong in program("doctor", "--offline").out
    program("build")
    listed = program("sessions", "--format", "json").items()
    rows = {row["session_id"]: row for row in listed}
    # 0.001 * 2 + 0.0001 * 8.
    assert rows["priced"]["cost_usd"] == 0.0028
    assert rows["unknown"]["cost_usd"] is None
    assert (rows["priced"]["model"], rows["priced"]["provider"]) == ("birch-4-mini", "vllm")
