"""Spark itself, as whoever here runs something on it wants it: a Java that fits, a session that is silent, jobs."""
