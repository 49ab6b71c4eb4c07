"""Where the golden partition is, and how it was written."""

from pathlib import Path

GOLDEN = Path(__file__).with_name("kafka-4.1.1")
TOPIC = "golden"
INDEX_INTERVAL_BYTES = 500
SEGMENT_MS = 600_000
TIME_MS = 1_700_000_000_000
CHECKPOINTS = (
    ".kafka_cleanshutdown",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)
