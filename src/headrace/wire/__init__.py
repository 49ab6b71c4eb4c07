"""A blocking client of Kafka's wire protocol, on plain sockets: for any Kafka, and free of event loops."""
