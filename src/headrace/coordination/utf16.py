"""Strings as Java counts them: in UTF-16 units. Where Kafka measures or hashes a string, the answer depends on it."""


def utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def utf16_hash(text: str) -> int:
    """`String.hashCode`: 31 to the power of the distance from the end, summed, as a signed 32-bit number."""
    units = text.encode("utf-16-le")
    total = 0
    for at in range(0, len(units), 2):
        total = (31 * total + (units[at] | units[at + 1] << 8)) & 0xFFFFFFFF
    return total - (1 << 32) if total >> 31 else total


def offsets_partition(group_id: str, *, partitions: int) -> int:
    """Which partition of `__consumer_offsets` holds a group."""
    hashed = utf16_hash(group_id)
    # Java's smallest number has no positive twin; Kafka takes zero for it.
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions
