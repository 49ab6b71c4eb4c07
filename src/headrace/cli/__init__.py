"""The `headrace` command: one module per noun, any Kafka-protocol cluster by `--bootstrap`."""
