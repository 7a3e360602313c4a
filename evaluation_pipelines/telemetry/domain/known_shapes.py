"""Forms of telemetry that are not read, with the program that writes them and what to set."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection

_UTF_16 = (
    "UTF-16, as PowerShell 5 writes with > and Tee-Object: pipe to Out-File -Encoding utf8 instead"
)
_VECTOR = (
    "written by Vector in its own form: set use_otlp_decoding: true on its opentelemetry source "
    "(since Vector 0.51), then its json codec writes OTLP"
)
_TELLING_BYTES = 8
"""Length from which a line shows its encoding."""

_VECTOR_NAMES = {"resources", "attributes"}


def encoding_reason(line: bytes) -> str | None:
    """Return why a line is no text in UTF-8; None if it is not known."""
    has_mark = line.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    # Of ASCII in UTF-16 each second byte is 0.
    is_utf_16 = has_mark or line.count(b"\0") * 3 > len(line)
    return _UTF_16 if is_utf_16 and len(line) >= _TELLING_BYTES else None


def object_reason(names: Collection[str]) -> str | None:
    """Return what wrote an object with these names; None if it is not known."""
    is_vector = "source_type" in names or set(names) >= _VECTOR_NAMES
    return _VECTOR if is_vector else None
