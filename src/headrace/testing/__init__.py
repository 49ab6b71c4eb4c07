"""Help for tests: nodes to start, kill and start again."""
