"""Reputation: agents over time, from evaluations and signals, in ClickHouse.

* ``store`` accesses ClickHouse, ``updates`` computes ratings and exports them for readers.
* Evaluations are ``submitted`` or ``external_signals``, ``domain.signals`` come from sessions.
* ``domain.agent_rating`` computes agent ratings.
"""
