"""Reputation: agents over time, from evaluations and signals, in ClickHouse.

``updates`` computes and exports it, so that readers need no ClickHouse, ``store`` is there.
Evaluations are ``submitted`` or ``external_signals``, ``domain.signals`` come from sessions.
``domain.agent_rating`` is the score of an agent.
"""
