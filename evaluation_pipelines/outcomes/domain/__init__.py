"""Meaning of outcomes, without files, clock or processes."""
