"""Any OpenAI-compatible endpoint: client, transport, limits, replies, files of batches."""
