"""Judge scores, their replies and costs, and batches in the ledger."""
