"""Signals about identities, and the rating of an agent."""
