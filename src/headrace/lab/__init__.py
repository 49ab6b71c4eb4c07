"""The laboratory: workloads to measure with."""
