"""Evaluations for other programs: an ``outbox`` of changes, and ``send`` to their receivers.

``deliveries`` is what each receiver has, ``post`` the way to a secret address.
"""
