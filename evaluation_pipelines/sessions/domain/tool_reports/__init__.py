"""Lost tool calls of a session: failed, repeated, corrected, wasted, looping."""
