"""Conversation with a judge, its verdict, the budget, and which sessions are due."""
