"""Libraries of agents that send spans: how to switch each on, and the gaps of its spans."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluation_pipelines.telemetry.domain.dialects.setup import (
    Receiver,
    SettingsFile,
    env_file,
    standard_variables,
)

_PYTHON = '''"""Import this before the agent is made: it sends the spans to the address in .env."""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

PROVIDER = TracerProvider()
PROVIDER.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(PROVIDER)
'''
_JAVASCRIPT = """// Import this before the agent is made: it sends the spans to the address in .env.
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeSDK } from "@opentelemetry/sdk-node";

new NodeSDK({ traceExporter: new OTLPTraceExporter() }).start();
"""
_LANGUAGES = {
    # Language -> file, first lines, comment, packages.
    "python": ("tracing.py", _PYTHON, "#", "opentelemetry-exporter-otlp-proto-http"),
    "javascript": (
        "tracing.mjs",
        _JAVASCRIPT,
        "//",
        "@opentelemetry/sdk-node @opentelemetry/exporter-trace-otlp-http",
    ),
}


@dataclass(frozen=True, slots=True)
class Library:
    """One library.

    Attributes:
        title: Its name.
        scopes: Instrumentation scopes of its spans.
        unknown: Gaps of its spans.
        packages: Packages to install for its spans.
        code: Lines that switch them on, run before the agent is made and after PROVIDER is set.
            ``{content}`` is true in its language if messages are sent.
        language: Language of the code, ``none`` for a program.
        session: The line that gives spans the id of a session. Empty if nothing does: each run is a
            session.
        has_session: True if spans have one without that line.
        texts_on: Variables that make it send text.
        texts_off: Variables that keep it from that.
    """

    title: str
    scopes: tuple[str, ...]
    unknown: str
    packages: str = ""
    code: str = ""
    language: str = "python"
    session: str = ""
    has_session: bool = False
    texts_on: Mapping[str, str] = field(default_factory=dict)
    texts_off: Mapping[str, str] = field(default_factory=dict)

    def settings(self, receiver: Receiver) -> list[SettingsFile]:
        """Return the variables and the code that switch it on."""
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            **standard_variables(receiver),
            **(self.texts_on if receiver.texts else self.texts_off),
        }
        environment = env_file(variables, f"the environment of the program with {self.title}")
        if self.language == "none":
            return [environment]
        name, first_lines, comment, packages = _LANGUAGES[self.language]
        texts = str(receiver.texts)
        code = self.code.replace("{content}", texts if comment == "#" else texts.lower())
        named = f"{comment} Session: {self.session}\n" if self.session else ""
        where = f"the folder of the program. It needs the packages {self.packages} {packages}"
        return [
            environment,
            SettingsFile(name, "\n".join(filter(None, (first_lines, code, named))), where),
        ]
