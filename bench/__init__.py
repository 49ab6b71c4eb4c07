"""The race: Headrace and Apache Kafka under the same load on the same machine, one table from one run."""
