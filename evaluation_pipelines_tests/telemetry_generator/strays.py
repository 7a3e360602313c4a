"""Lines as a collector writes them: logs, and what stands between them in real files.

A mishap takes the requests of a line and gives the lines that are written instead: one thing more
that cannot be read, while every record is still there.
"""

from collections.abc import Callable, Sequence

from evaluation_pipelines_tests.telemetry_generator.otlp import double, text

Mishap = Callable[[Sequence[str]], Sequence[bytes]]

_RESOURCE = f'"resource":{{"attributes":[{text("service.name", "claude-code")}]}}'


def logs_line(requests: Sequence[str]) -> bytes:
    """A line of log records."""
    return f'{{"resourceLogs":[{",".join(requests)}]}}'.encode()


def metrics_line(time_ms: int) -> bytes:
    """A line of metrics, which nothing here reads."""
    points = ",".join(
        f'{{"attributes":[{text("type", kind)}],"startTimeUnixNano":"{time_ms - 60_000}000000",'
        f'"timeUnixNano":"{time_ms}000000","asDouble":{value}}}'
        for kind, value in (("input", 12), ("output", 420), ("cacheRead", 41_000))
    )
    metric = (
        f'{{"name":"claude_code.token.usage","description":"Number of tokens used","unit":"tokens",'
        f'"sum":{{"dataPoints":[{points}],"aggregationTemporality":1,"isMonotonic":true}}}}'
    )
    scope = '"scope":{"name":"com.anthropic.claude_code"}'
    return (
        f'{{"resourceMetrics":[{{{_RESOURCE},"scopeMetrics":[{{{scope},"metrics":[{metric}]}}]}}]}}'
    ).encode()


def traces_line(time_ms: int) -> bytes:
    """A line with a span that has no kind: it is counted by name."""
    span = (
        f'{{"traceId":"{time_ms:032x}","spanId":"{time_ms:016x}",'
        f'"name":"claude_code.interaction","kind":1,'
        f'"startTimeUnixNano":"{time_ms - 9000}000000","endTimeUnixNano":"{time_ms}000000",'
        f'"attributes":[{double("interaction.seconds", "9.0")}]}}'
    )
    scope = '"scope":{"name":"com.anthropic.claude_code.tracing","version":"1.0.0"}'
    return (
        f'{{"resourceSpans":[{{{_RESOURCE},"scopeSpans":[{{{scope},"spans":[{span}]}}]}}]}}'
    ).encode()


def _killed(requests: Sequence[str]) -> Sequence[bytes]:
    """The collector was killed in the middle of a line, and got the requests again."""
    line = logs_line(requests)
    return line[: len(line) * 2 // 3], line


def _scrambled(requests: Sequence[str]) -> Sequence[bytes]:
    """A block of the disk was lost."""
    return b'{"resourceLogs":[\x00\xff\xfe\x80\x00]}', logs_line(requests)


def _foreign(requests: Sequence[str]) -> Sequence[bytes]:
    """A program wrote its own log into the same file."""
    return b'{"level":"info","msg":"Everything is ready."}', logs_line(requests)


def _half_broken(requests: Sequence[str]) -> Sequence[bytes]:
    """One record of a line is no record."""
    scope_logs = '"scopeLogs":[{"logRecords":[{"timeUnixNano":"soon","attributes":"none"}]}]'
    return (logs_line([*requests, f"{{{_RESOURCE},{scope_logs}}}"]),)


def _misattributed(requests: Sequence[str]) -> Sequence[bytes]:
    """An attribution line written by hand."""
    line = b'{"session_id":"unknown","masque":"Codesmith","donned_at":"this morning"}'
    return line, logs_line(requests)


MISHAPS: tuple[Mishap, ...] = (_killed, _half_broken, _foreign, _scrambled, _misattributed)
