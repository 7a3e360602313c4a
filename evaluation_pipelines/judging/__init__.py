"""Judging: a language model scores sessions by a rubric, within a budget.

``run`` judges what ``find_due`` selects (``runner`` concurrently, ``plans`` by which rubric,
``batch`` at half the price, with a ``report``), ``score_requests`` what a person asked for.
``domain`` has conversation, verdict and budget, ``endpoint`` the client, ``ledger`` the scores
and ``score_table`` their table, ``session_windows`` reads sessions, ``rubric_files`` rubrics.
``validation`` checks a judge by labeled sessions.
"""
