"""Messages of the collector's length-prefixed files: protobuf, compressed by zstd, or both."""

from evaluation_pipelines.telemetry.domain.protobuf import looks_like_request, request_json

ZSTD = b"\x28\xb5\x2f\xfd"


def is_message(head: bytes) -> bool:
    """Return True if a file with these first eight bytes consists of messages."""
    # Protobuf has no mark of its own; no text begins with the length of less than 16 MiB.
    return head[4:8] == ZSTD or (head[:1] == b"\0" and looks_like_request(head[4:]))


def message_text(packed: bytes, limit: int) -> bytes:
    """Return the JSON of a message, at most ``limit + 1`` bytes of it if it is compressed.

    Raises:
        ValueError: it cannot be decompressed, or is not an OTLP request.
    """
    content = _decompressed(packed, limit) if packed.startswith(ZSTD) else packed
    if len(content) <= limit and looks_like_request(content):
        return request_json(content)
    return content


def _decompressed(packed: bytes, limit: int) -> bytes:
    import pyarrow as pa  # slow to import, and rarely needed

    try:
        stream = pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
        content: bytes = stream.read(limit + 1)
    except OSError as error:
        raise ValueError(f"cannot be decompressed: {error}") from None
    return content
