"""Reputation: agents over time, from evaluations and external signals, in ClickHouse.

``updates`` computes and exports it, so that readers need no ClickHouse.
"""
