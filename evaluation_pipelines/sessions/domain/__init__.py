"""Formulas of sessions: performance, masques, when one has ended, filters, summaries."""
