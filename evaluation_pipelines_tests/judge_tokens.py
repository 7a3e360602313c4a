"""Token counts of a scripted judge, with a prompt cache like that of real providers."""

from typing import Any

_CHARACTERS_PER_TOKEN = 4
_BLOCK_TOKENS = 128
_SMALLEST_TOKENS = 1024


class TokenCounter:
    """Counter with 4 characters per token and a cache of prompt prefixes."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def usage(self, messages: list[dict[str, Any]], text: str) -> dict[str, Any]:
        """Return the ``usage`` of a completion; prefixes of earlier prompts count as cached."""
        prompt = "".join(message["content"] for message in messages)
        prompt_tokens, reply_tokens = (
            len(each) // _CHARACTERS_PER_TOKEN or int(bool(each)) for each in (prompt, text)
        )
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": reply_tokens,
            "total_tokens": prompt_tokens + reply_tokens,
            "prompt_tokens_details": {"cached_tokens": self._cached(prompt)},
        }

    def _cached(self, prompt: str) -> int:
        """Return the tokens of known leading blocks; 0 below the smallest cacheable size."""
        characters, chain, cached, known = _BLOCK_TOKENS * _CHARACTERS_PER_TOKEN, 0, 0, True
        for start in range(0, len(prompt) - characters + 1, characters):
            chain = hash((chain, prompt[start : start + characters]))
            known = known and chain in self._known
            cached += _BLOCK_TOKENS * known
            self._known.add(chain)
        return cached if cached >= _SMALLEST_TOKENS else 0
