"""Judging at half the price: batches of requests, submitted and collected."""
