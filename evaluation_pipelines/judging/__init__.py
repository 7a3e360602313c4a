"""Judging: a language model scores sessions by a rubric, within a budget.

``run`` judges what is due, ``requests`` what a person asked for, ``batch`` at half the price;
``domain`` has the conversation, the verdict and the budget, ``ledger`` the scores.
"""
