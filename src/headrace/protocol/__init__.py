"""Bytes to values and back, without any I/O: primitives, frames, headers, message tables, record batches."""
