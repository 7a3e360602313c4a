"""Forms of telemetry that are not read, with the program that writes them and what to set."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection

UTF_16 = (
    "UTF-16, as PowerShell 5 writes with > and Tee-Object: pipe to Out-File -Encoding utf8 instead"
)
_NULS = "a run of NUL bytes, as a crash or a full disk leaves"
_VECTOR = (
    "written by Vector in its own form: set use_otlp_decoding: true on its opentelemetry source "
    "(since Vector 0.51), then its json codec writes OTLP"
)
_VECTOR_NAMES = {"resources", "attributes"}


def is_utf_16(beginning: bytes) -> bool:
    """Return True if a file or text begins with the byte order mark of UTF-16."""
    return beginning.startswith((BOM_UTF16_LE, BOM_UTF16_BE))


def encoding_reason(line: bytes) -> str | None:
    """Return why a line is no text in UTF-8; None if it is not known."""
    if is_utf_16(line):
        return UTF_16
    return _NULS if b"\0\0" in line else None


def object_reason(names: Collection[str]) -> str | None:
    """Return what wrote an object with these names; None if it is not known."""
    is_vector = "source_type" in names or set(names) >= _VECTOR_NAMES
    return _VECTOR if is_vector else None
