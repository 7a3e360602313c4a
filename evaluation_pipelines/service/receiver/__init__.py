"""Receiver of OTLP over HTTP and gRPC: requests become lines of landing files."""
