"""Tokens as a scripted judge counts them, with a prompt cache like that of real providers."""

from typing import Any

_LETTERS_PER_TOKEN = 4
_BLOCK_TOKENS = 128
_SMALLEST_TOKENS = 1024


class TokenCounter:
    """Counts 4 letters as a token, and remembers how earlier prompts began."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def usage(self, messages: list[dict[str, Any]], text: str) -> dict[str, Any]:
        """The ``usage`` of a completion; cached is what an earlier prompt began with too."""
        prompt = "".join(each["content"] for each in messages)
        prompt_tokens, reply_tokens = (len(each) // _LETTERS_PER_TOKEN for each in (prompt, text))
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": reply_tokens,
            "total_tokens": prompt_tokens + reply_tokens,
            "prompt_tokens_details": {"cached_tokens": self._cached(prompt)},
        }

    def _cached(self, prompt: str) -> int:
        """Whole blocks from the beginning on, if they are enough to be kept."""
        letters, chain, cached, known = _BLOCK_TOKENS * _LETTERS_PER_TOKEN, 0, 0, True
        for start in range(0, len(prompt) - letters + 1, letters):
            chain = hash((chain, prompt[start : start + letters]))
            known = known and chain in self._known
            cached += _BLOCK_TOKENS * known
            self._known.add(chain)
        return cached if cached >= _SMALLEST_TOKENS else 0
