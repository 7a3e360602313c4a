"""Check of the token counts that an endpoint reports: some report none, some nonsense."""

from dataclasses import dataclass

from evaluation_pipelines.judging.domain.budget.pricing import Usage

_TEMPLATE_TOKENS = 2_000
"""What a chat template and a hidden system prompt may add to the messages."""

_LONGEST_REASONING_TOKENS = 200_000
"""More than any model writes in one reply; some servers apply no limit to the reasoning."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its reply, as far as they limit the number of tokens.

    Attributes:
        sent_bytes: Length of all messages; a token has at least one byte.
        sent_tokens: Estimated tokens of all messages.
        reply_bytes: Length of the reply.
        reply_tokens: Estimated tokens of the reply.
        max_output_tokens: Longest reply that was allowed.
    """

    sent_bytes: int
    sent_tokens: int
    reply_bytes: int
    reply_tokens: int
    max_output_tokens: int

    def is_possible(self, usage: Usage) -> bool:
        """Return whether reported counts can be those of this exchange."""
        read = usage.input_tokens + usage.cached_tokens
        written = usage.output_tokens
        longest = max(self.max_output_tokens, self.reply_bytes)
        return (
            0 < read <= self.sent_bytes + _TEMPLATE_TOKENS
            and (written > 0 or self.reply_bytes == 0)
            and written - usage.reasoning_tokens <= longest
            and usage.reasoning_tokens <= _LONGEST_REASONING_TOKENS
        )

    def estimate(self) -> Usage:
        """Return the estimated usage."""
        return Usage(self.sent_tokens, 0, self.reply_tokens)
