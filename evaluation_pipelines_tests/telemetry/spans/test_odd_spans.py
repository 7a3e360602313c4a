"""Spans as no library should send them, and trees of an unusual form."""

import json
import random
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.telemetry.domain.otlp import select_records
from evaluation_pipelines.telemetry.domain.spans import assemble, trace_sessions
from evaluation_pipelines_tests.telemetry.spans.captured import assembled, read

NOON_US = 1_795_867_200_000_000
"""2026-11-28 12:00 UTC."""

Span = dict[str, Any]


def span(
    number: int, parent: int | None, operation: str, start_s: float, end_s: float, **more: Any
) -> Span:
    """Return a span of a library with the GenAI conventions, in a trace of its hundreds."""
    attributes = {"gen_ai.operation.name": operation, **more.pop("attributes", {})}
    return {
        "traceId": f"{number // 100 + 1:032x}",
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": operation,
        "startTimeUnixNano": str(round((NOON_US + start_s * 1e6) * 1000)),
        "endTimeUnixNano": str(round((NOON_US + end_s * 1e6) * 1000)),
        "attributes": [
            {"key": key, "value": _value(attribute)} for key, attribute in attributes.items()
        ],
        **more,
    }


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {"intValue": value} if isinstance(value, int) else {"stringValue": value}


def line(*spans: Any, scope: str = "library") -> bytes:
    """Return one export request."""
    sent = {"scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}]}
    return json.dumps({"resourceSpans": [sent]}).encode()


def agent(
    number: int, parent: int | None, start_s: float = 0, end_s: float = 9, **more: Any
) -> Span:
    """Return the span of an agent."""
    return span(number, parent, "invoke_agent", start_s, end_s, **more)


def call(
    number: int, parent: int | None, start_s: float = 1, end_s: float = 2, **more: Any
) -> Span:
    """Return a call to a model with 10 tokens of output."""
    tokens = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 10}
    attributes = {"gen_ai.request.model": "m", **tokens, **more.pop("attributes", {})}
    return span(number, parent, "chat", start_s, end_s, attributes=attributes, **more)


def tool(
    number: int, parent: int | None, start_s: float = 3, end_s: float = 4, **more: Any
) -> Span:
    """Return a tool call that ended well."""
    return span(number, parent, "execute_tool", start_s, end_s, **more)


SESSION = {"gen_ai.conversation.id": "s"}
ASKED = {"gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Do it."}]}]'}
TREE = (agent(1, None, attributes=SESSION), call(2, 1), tool(3, 1))


def names(events: pl.DataFrame) -> str:
    """Return the events in order: (p)rompt, (c)all, (e)rror, (t)ool, (r)eply."""
    short = {"user_prompt": "p", "api_request": "c", "api_error": "e", "tool_result": "t"}
    return "".join(
        short.get(name, "r") for name in events.sort("event_time", "event_name")["event_name"]
    )


TREES = {
    "whole": (TREE, "pct"),
    "twice": ((*TREE, *TREE), "pct"),
    "without the root": (TREE[1:], "ct"),
    "without the root, with a prompt": ((call(2, 1, attributes=ASKED), tool(3, 1)), "pct"),
    "an orphan within a turn asks nothing": ((TREE[0], call(5, 77, attributes=ASKED)), "pc"),
    "an orphan after the turn": ((TREE[0], call(5, 77, 20, 21, attributes=ASKED)), "pc"),
    "steps of a run whose span never came": (
        tuple(span(n, 9, "invoke_workflow", n, n + 0.5) for n in (1, 2)),
        "p",
    ),
    "two runs in one trace": ((agent(1, None), agent(2, None, 20, 30)), "pp"),
    "two runs below a span that was not sent": ((agent(1, 9), agent(2, 9, 1, 2)), "pp"),
    "a cycle": ((agent(1, 2), call(2, 1)), "pc"),
    "its own parent": ((agent(1, 1), call(2, 1)), "pc"),
    "a call in a call": ((agent(1, None), call(2, 1), call(3, 2, 1.1, 1.9)), "pc"),
    "attempts in a call": (
        (agent(1, None), call(2, 1), *(call(n, 2, n, n, status={"code": 2}) for n in (3, 4))),
        "pee",
    ),
    "a call in a call that tells nothing": (
        (agent(1, None), call(2, 1), span(3, 2, "chat", 1.1, 1.9)),
        "pc",
    ),
    "a reversed time": ((agent(1, None), call(2, 1, 2, 1)), "pc"),
    "zero times": (
        (agent(1, None), call(2, 1, startTimeUnixNano="0", endTimeUnixNano="0")),
        "pc",
    ),
    "times of a wrong type": ((agent(1, None), call(2, 1, endTimeUnixNano={"low": 1})), "pc"),
    "attributes of wrong types": (
        (
            agent(1, None, attributes={"gen_ai.agent.name": {"arrayValue": {"values": []}}}),
            call(2, 1, attributes={"gen_ai.usage.output_tokens": "many", **ASKED}),
            call(3, 1, attributes={"gen_ai.input.messages": {"kvlistValue": {"values": []}}}),
            tool(4, 1, attributes={"gen_ai.tool.call.id": 7, "gen_ai.tool.name": {}}),
        ),
        "pcct",
    ),
    "a status as text": ((agent(1, None), tool(2, 1, status={"code": "STATUS_CODE_ERROR"})), "pt"),
    "a name that is none": ((agent(1, None, name=None), call(2, 1, name={"a": 1})), "pc"),
    "messages cut within": (
        (agent(1, None), call(2, 1, attributes={"gen_ai.output.messages": '[{"role":"assis'})),
        "pc",
    ),
}


@pytest.mark.parametrize(("spans", "events"), TREES.values(), ids=TREES)
def test_events_of_a_trace(spans: Sequence[Span], events: str) -> None:
    """In any order of arrival."""
    batch = read([line(*spans)])
    assert batch.quarantined == []
    assert names(assembled(batch.events)) == events
    for seed in range(5):
        mixed = random.Random(seed).sample(spans, len(spans))  # noqa: S311 - no secret
        found = assembled(read([line(span) for span in mixed]).events)
        assert names(found) == events


def test_an_orphan_belongs_to_the_turn_before_it() -> None:
    """Between two turns of one trace, and its work is part of the first."""
    spans = (agent(1, None), agent(2, None, 20, 30), agent(3, None, 40, 50), call(4, 77, 32, 33))
    events = assembled(read([line(*spans)]).events)
    prompts = events.filter(event_name="user_prompt").sort("event_time")["prompt_id"].to_list()
    assert events.filter(event_name="api_request")["prompt_id"].to_list() == prompts[1:2]


def test_times_that_cannot_be_give_no_duration() -> None:
    """Reversed or missing; the others have milliseconds."""
    zero = {**call(2, None), "startTimeUnixNano": "0", "endTimeUnixNano": "0"}
    spans = (call(1, None, 2, 1), zero, call(3, None, 1, 3))
    rows = read([line(*spans)]).events.filter(event_name="api_request").sort("span_id")
    assert rows["duration_ms"].to_list() == [None, None, 2000]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"traceId": ""}, "a span without traceId"),
        ({"spanId": None}, "a span without spanId"),
        ({"traceId": "0" * 32}, "a span without traceId"),
        ({"events": {"name": "x"}}, "not an OTLP span: Expected `array | null`, got `object`"),
        ({"attributes": 7}, "not an OTLP span: Expected `array | null`, got `int`"),
    ],
)
def test_a_broken_span_is_quarantined_and_the_others_are_read(
    broken: dict[str, Any], reason: str
) -> None:
    """It can be read again by its place in the line."""
    text = line(TREE[0], {**TREE[1], **broken}, TREE[2])
    batch = read([text])
    (defect,) = batch.quarantined
    assert defect.reason.startswith(reason)
    assert names(assembled(batch.events)) == "pt"
    again = json.loads(select_records(text, [1]))["resourceSpans"][0]["scopeSpans"][0]
    assert again["spans"] == [{**TREE[1], **broken}]


def test_messages_of_a_long_conversation_are_no_attributes_too_many() -> None:
    """OpenInference sends each field of each as an attribute. Others count."""
    history = {f"llm.input_messages.{n}.message.content": "x" for n in range(300)}
    kind = {"openinference.span.kind": "LLM", "llm.token_count.completion": 1}
    sent = {**TREE[1], "attributes": []}
    for more, defects in ((history, 0), ({f"k{n}": "x" for n in range(300)}, 1)):
        pairs = [{"key": key, "value": _value(value)} for key, value in {**kind, **more}.items()]
        batch = read([line({**sent, "attributes": pairs})], max_attributes=100)
        assert len(batch.quarantined) == defects


@pytest.mark.parametrize(
    ("sent", "prompt"),
    [
        ('[{"role":"user","content":"Do it."}]', "Do it."),
        ('[{"role":"user","content":"Do \\ud83d it."}]', "Do ? it."),
        ('[{"role":"user","content":"Do it', None),
        ('[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}]', None),
        ('[{"role":"user","parts":[{"type":"tool_call_response","result":"18 C"}]}]', None),
        ("[now] Do it.", "[now] Do it."),
        ("<REDACTED>", None),
        ({"arrayValue": {"values": [{"stringValue": "Do it."}]}}, None),
    ],
)
def test_the_prompt_is_the_last_message_of_the_user(sent: Any, prompt: str | None) -> None:
    """Halves of characters, cut texts, answered prompts, results of tools, plain texts."""
    rows = read([line(call(1, None, attributes={"gen_ai.input.messages": sent}))]).events
    asked = rows.filter(span_role="asked")["content"].to_list()
    assert asked == ([] if prompt is None else [prompt])


def test_spans_under_other_names_are_read() -> None:
    """Older versions, and snake_case as protobuf writes it on request."""
    old = line(*TREE).replace(b"scopeSpans", b"instrumentationLibrarySpans")
    snake = line(*TREE)
    for name in ("resource_spans", "scope_spans", "trace_id", "span_id", "parent_span_id"):
        first, *rest = name.split("_")
        snake = snake.replace((first + "".join(map(str.title, rest))).encode(), name.encode())
    snake = snake.replace(b"startTimeUnixNano", b"start_time_unix_nano")
    snake = snake.replace(b"endTimeUnixNano", b"end_time_unix_nano")
    for sent in (old, snake):
        assert names(assembled(read([sent]).events)) == "pct"


def test_spans_of_other_programs_are_counted_by_name() -> None:
    """A web server does not become a session."""
    web = {**TREE[1], "attributes": [], "name": "GET /"}
    batch = read([line(web, scope="http"), line(web, scope="http")])
    assert (batch.events.height, batch.counts.spans, batch.counts.unknown_records) == (0, 2, 2)
    assert batch.names == {("http", "GET /"): 2}


@pytest.mark.parametrize("start_s", [1, 0.5])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_outermost_span_with_an_id_names_the_session(
    order: tuple[int, ...], start_s: float
) -> None:
    """A sub-agent has an id of its own, and perhaps a clock ahead. A linked trace counts last."""
    spans = (
        agent(1, None, links=[{"traceId": f"{9:032x}"}]),
        call(3, 1, 1, 2, attributes={"session.id": "outer"}),
        call(2, 3, start_s, 1.5, attributes={"session.id": "inner"}),
    )
    rows = read([line(spans[index]) for index in order]).events
    assert trace_sessions(rows)["session_id"].to_list() == ["outer"]
    linked = read([line(spans[0])]).events
    assert trace_sessions(linked)["session_id"].to_list() == [f"trace:{9:032x}"]


@pytest.mark.parametrize(("parent", "rank"), [(None, 0), (9, 1)])
def test_a_root_names_the_session_before_spans_that_came_earlier(
    parent: int | None, rank: int
) -> None:
    """Of parts of a trace that are read one after the other, the smaller rank counts."""
    rows = read([line(call(1, parent, attributes={"session.id": "s"}))]).events
    assert trace_sessions(rows)["rank"].to_list() == [rank]


def test_the_session_of_a_resource_counts_less_than_that_of_a_span() -> None:
    """It is a window or a process, which any number of conversations share."""
    sent = json.loads(line(call(1, None), call(101, None, attributes=SESSION)))
    window = {"attributes": [{"key": "session.id", "value": {"stringValue": "window"}}]}
    sent["resourceSpans"][0]["resource"] = window
    rows = read([json.dumps(sent).encode()]).events
    assert rows["session_id"].to_list() == ["window", "s"]
    assert rows["span_session_id"].to_list() == [None, "s"]


def test_a_session_counts_more_than_the_conversation_of_a_sub_agent() -> None:
    """Claude Code sends both, and the span of the turn may never come."""
    ids = {"gen_ai.conversation.id": "helper", "session.id": "s"}
    assert read([line(call(1, 9, attributes=ids))]).events["session_id"].to_list() == ["s"]


SESSION_IDS = (
    *("session.id", "gen_ai.conversation.id", "conversation.id"),
    *("langsmith.metadata.thread_id", "langsmith.metadata.session_id"),
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id",
    *("gcp.vertex.agent.session_id", "langfuse.session.id"),
    *("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.threadId"),
    *("ai.settings.context.sessionId", "ai.settings.context.chatId"),
)


def test_the_most_reliable_of_several_ids_names_the_session() -> None:
    """In this order: with another one, sessions would move at an update."""
    spans = [
        agent(100 * n + 1, None, attributes={key: key for key in reversed(SESSION_IDS[n:])})
        for n in range(len(SESSION_IDS))
    ]
    found = read([line(*spans)]).events.sort("span_id")["span_session_id"]
    assert found.to_list() == list(SESSION_IDS)


def test_a_span_with_kinds_of_several_conventions_is_of_the_first() -> None:
    kinds = {
        "openinference.span.kind": "AGENT",
        "langsmith.span.kind": "llm",
        "ai.operationId": "ai.toolCall",
        "gen_ai.operation.name": "invoke_workflow",
    }
    spans = [
        span(n + 1, None, "", 1, 9, attributes=dict([*kinds.items()][n:]))
        for n in range(len(kinds))
    ]
    found = read([line(*spans)]).events.sort("span_id")["span_role"]
    assert found.to_list() == ["agent", "call", "tool", "chain"]


def test_work_below_a_tool_is_of_a_sub_agent() -> None:
    """Whether the library reports an agent there or not; its prompt and turn are none."""
    named = {"gen_ai.agent.name": "main"}
    spans = (
        agent(1, None, attributes=named),
        call(2, 1, attributes=named),
        tool(3, 1, 3, 8),
        agent(4, 3, 3.1, 5, attributes={"gen_ai.agent.name": "helper"}),
        call(5, 4, 3.2, 4, attributes=ASKED),
        tool(6, 1, 5, 8),
        call(7, 6, 5.1, 6),
        agent(8, 1, 8.1, 9, attributes={"gen_ai.agent.name": "other"}),
        call(9, 8, 8.2, 9),
    )
    events = assembled(read([line(*spans)]).events).sort("event_time", "event_name")
    assert names(events) == "pcccttc"
    calls = events.filter(event_name="api_request")
    assert calls["subagent"].to_list() == [None, "helper", "subagent", "other"]
    assert set(events["agent_id"]) == {"main"}
    assert events["prompt_id"].n_unique() == 1


def test_an_agent_that_asks_one_of_its_own_name_has_a_sub_agent() -> None:
    named = {"gen_ai.agent.name": "main"}
    spans = (
        agent(1, None, attributes=named),
        tool(2, 1, 3, 8),
        agent(3, 2, 3.1, 5, attributes=named),
        call(4, 3, 3.2, 4),
    )
    calls = assembled(read([line(*spans)]).events).filter(event_name="api_request")
    assert calls["subagent"].to_list() == ["main"]


def test_a_tool_that_was_refused_or_stopped_neither_failed_nor_went_well() -> None:
    """Whatever the status."""
    error = {"code": 2, "message": "x"}
    sent = {"gen_ai.tool.call.arguments": "{}"}
    inference = {"openinference.span.kind": "TOOL"}
    spans = (
        tool(1, None, status=error, attributes={"error.type": "denied"}),
        tool(2, None, status=error, attributes={"error.type": "asyncio.CancelledError"}),
        tool(3, None, attributes=sent),
        tool(4, None, attributes={**sent, "gen_ai.tool.call.result": ""}),
        tool(5, None, status=error, attributes=sent),
        tool(6, None, attributes={"process.exit.code": 2}),
        tool(7, None, attributes={**inference, "input.value": "{}"}),
        tool(8, None, attributes={**inference, "tool.parameters": "{}"}),  # can be a schema
        tool(9, None, attributes={"langsmith.span.kind": "tool", "gen_ai.prompt": "{}"}),
    )
    events = assembled(read([line(*spans)]).events).sort("span_id")
    assert events["success"].to_list() == [None, None, None, True, False, False, None, True, True]
    assert events["decision"].to_list() == ["reject", *[None] * 8]


def test_a_tool_of_strands_that_failed_needs_no_status_of_its_own() -> None:
    failed = {"code": 2}
    spans = (tool(1, None), tool(2, None, status=failed))
    events = assembled(read([line(*spans, scope="strands.telemetry.tracer")]).events)
    assert events.sort("span_id")["success"].to_list() == [None, False]


def test_a_person_allows_or_refuses_a_tool_of_claude_code() -> None:
    """The decision is on a span within that of the tool."""
    spans = [span(n, None, "", 1, 9, attributes={"span.type": "tool"}) for n in (1, 2, 3)]
    for number, decision in ((1, "reject"), (2, "accept")):
        asks = {"span.type": "tool.blocked_on_user", "decision": decision}
        spans.append(span(number + 10, number, "", 2, 3, attributes=asks))
    runs = {"span.type": "tool.execution", "success": "true"}
    spans.append(span(22, 2, "", 3, 8, attributes=runs))
    rows = read([line(*spans, scope="com.anthropic.claude_code.tracing")]).events
    calls = assembled(rows).sort("span_id")
    assert calls.select("success", "decision").rows() == [
        (None, "reject"),
        (True, "accept"),
        (None, None),
    ]


@pytest.mark.parametrize(
    "scope",
    [
        *("com.anthropic.claude_code.tracing", "agent_framework", "strands.telemetry.tracer"),
        *("opentelemetry.instrumentation.openai_v2", "openlit-cli"),
        # Of others: their names only begin alike.
        *("gcp.vertex.agent.tools", "github.copilot-x", "gemini-cli-test", "pydantic-ai-harness"),
    ],
)
def test_a_span_without_its_kind_is_unread_and_makes_no_session(scope: str) -> None:
    sent = {**span(1, None, "chat", 1, 9), "attributes": []}
    found = read([line(sent, scope=scope)])
    assert (len(found.events), found.counts.unknown_records) == (0, 1)
    assert found.names == {(scope, "chat"): 1}


@pytest.mark.parametrize(
    "scope",
    [
        *("gcp.vertex.agent.tools", "github.copilot-x", "gemini-cli-test"),
        *("pydantic-ai-harness.playwright", "agent_framework.workflow"),
        *("opentelemetry.instrumentation.openai_v2.x", "opentelemetry.util.genai.handler"),
    ],
)
def test_a_span_of_the_conventions_is_read_in_any_scope(scope: str) -> None:
    found = read([line(call(1, None), scope=scope)])
    assert (found.events["span_role"].to_list(), found.counts.unknown_records) == (["call"], 0)


def test_a_span_that_is_only_named_like_a_call_is_none() -> None:
    """Such as an endpoint of a web server."""
    named = [{"key": "gen_ai.conversation.id", "value": {"stringValue": "s"}}]
    rows = read([line({**span(1, None, "chat", 1, 9), "attributes": named})]).events
    assert rows["span_role"].to_list() == ["part"]


def test_an_attribute_of_copilot_alone_makes_no_session() -> None:
    named = [{"key": "github.copilot.version", "value": {"stringValue": "1"}}]
    found = read([line({**span(1, None, "chat", 1, 9), "attributes": named})])
    assert (len(found.events), found.counts.unknown_records) == (0, 1)


def test_no_folder_file_or_command_of_openlit_is_an_attribute() -> None:
    named = {"coding_agent.session.id": "s", "coding_agent.client": "cursor"}
    private = ("code.cwd", "code.file.path", "coding_agent.tool.command")
    paths = {"coding_agent.llm.turn.attachment.paths": "/home/ada/a.png"}
    told = {**named, **dict.fromkeys(private, "/home/ada"), **paths}
    edit = span(3, 1, "x", 3, 3, name="coding_agent.edit.decision", attributes=told)
    spans = (call(1, None, attributes=told), tool(2, 1, attributes=told), edit)
    rows = read([line(*spans, scope="openlit-cli")]).events
    assert rows.filter(pl.col("attributes").is_not_null()).height == 3
    assert "/home/ada" not in repr(rows.to_dicts())


def test_a_name_of_google_adk_counts_without_a_kind() -> None:
    named = span(1, None, "call_llm", 1, 9)
    spans = ({**named, "attributes": []}, span(2, None, "embeddings", 1, 9, name="call_llm"))
    rows = read([line(*spans, scope="gcp.vertex.agent")]).events.sort("span_id")
    assert rows["span_role"].to_list() == ["call", "part"]


def test_an_agent_of_pydantic_ai_without_a_name_has_its_id() -> None:
    rows = read([line(agent(1, None, attributes={"gen_ai.agent.id": "a"}), scope="pydantic-ai")])
    assert rows.events["agent_id"].to_list() == ["a"]


def test_a_text_of_10_mb_and_a_trace_over_three_days() -> None:
    """Texts are kept whole, and time does not matter."""
    prompt = "x" * 10_000_000
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": prompt}]}])
    day_s = 86_400
    spans = (
        agent(1, None, 0, 3 * day_s, attributes={"gen_ai.input.messages": messages}),
        *(call(n, 1, n * day_s, n * day_s + 1) for n in (2, 3)),
    )
    batch = read([line(*spans)])
    assert names(assembled(batch.events)) == "pcc"
    assert batch.events.filter(span_role="agent")["content"].to_list() == [prompt]


def test_one_session_in_10_000_traces() -> None:
    """Each trace is a turn."""
    spans = [agent(100 * n, None, n, n + 1, attributes=SESSION) for n in range(1, 10_001)]
    events = assembled(read([line(*spans)]).events)
    assert names(events) == "p" * 10_000
    assert events["session_id"].unique().to_list() == ["s"]


def test_a_deep_trace_of_100_000_spans() -> None:
    """Each below the one before."""
    spans = [{**call(n + 1, n or None, n / 1e4, 11), "traceId": "a" * 32} for n in range(100_000)]
    rows = read([line(*spans[at : at + 5_000]) for at in range(0, len(spans), 5_000)]).events
    found = assemble(rows)
    assert (found.events.height, dict(found.dropped)) == (1, {"repeated call": 99_999})


def test_a_wide_trace_of_30_000_spans() -> None:
    """All at one time: each without a parent is a turn, and the orphans are within them."""
    spans = [{**agent(n + 1, n % 2 and 10**6), "traceId": "a" * 32} for n in range(30_000)]
    assert names(assembled(read([line(*spans)]).events)) == "p" * 15_000


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ('[{"name": "bash", "description": "x"}, {"function": {"name": "view"}}]', "bash, view"),
        ('[{"functionDeclarations": [{"name": "a"}, {"name": "a"}, {"name": 7}]}]', "a"),
        ('[{"name": "cut', None),
    ],
)
def test_of_the_tools_that_an_agent_could_call_only_the_names_are_kept(
    sent: str, kept: str | None
) -> None:
    defined = {"gen_ai.tool.definitions": sent}
    spans = agent(1, None), call(2, 1, attributes=defined), tool(3, 1, attributes=defined)

    attributes = read([line(*spans)]).events["attributes"].drop_nulls()

    found = [json.loads(attribute).get("gen_ai.tool.definitions") for attribute in attributes]
    assert set(found[-2:]) == {kept}
    assert "description" not in "".join(attributes)
