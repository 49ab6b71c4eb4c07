"""Headrace: a Kafka you can pip install."""

__version__ = "0.1.0"
