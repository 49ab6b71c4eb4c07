"""Consumer groups and their offsets, as a state machine: decide, then apply.

`coordinator.py` is the door. Nothing here waits, reads a clock or touches a log: time comes in as an argument,
records go out as values, and whoever asked and must wait is a ticket that a later decision answers.
"""
