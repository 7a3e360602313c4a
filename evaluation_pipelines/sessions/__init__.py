"""Sessions: session windows, their performance and tool reports.

``session_tables`` builds the daily tables by ``session_queries``, ``score`` without a store.
``find`` opens sessions by name or filter, ``percentiles`` ranks them, ``external`` has
evaluations by others, ``domain`` the formulas.
"""
