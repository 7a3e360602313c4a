"""Who serves a model, from the price table that the library ``genai-prices`` ships (offline)."""

from functools import cache


@cache
def provider_of(model: str) -> str | None:
    """Provider id ("anthropic", "openai" ...) of a model name; None when the table lacks it."""
    # Imported here: loading the table takes longer than loading everything else of the terminal.
    from genai_prices.data_snapshot import get_snapshot

    try:
        provider, _ = get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return None
    return provider.id
