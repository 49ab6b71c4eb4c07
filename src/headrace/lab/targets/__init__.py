"""What is measured: nodes, clusters that are there, Apache Kafka, a sink that keeps nothing."""
