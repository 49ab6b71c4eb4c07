"""Kafka's perf tests without a JVM: what they measure, and the lines that they print, to the letter.

Statistics, throttle, payloads, formats and settings are pure and know no client. `producer`, `consumer` and `latency`
are the three runs: they are given a librdkafka client, a clock and somewhere to print.
"""
