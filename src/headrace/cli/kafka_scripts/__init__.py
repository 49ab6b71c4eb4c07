"""Kafka's own command names, so that muscle memory and people's scripts work; any Kafka will do.

Each script is a table of Kafka's flags and a function that does with our commands' means what they ask for, and
prints it as Kafka does. A flag that is not in the table, or that stands there as unsupported, is an error that
names it; one that changes nothing here is noted.
"""
