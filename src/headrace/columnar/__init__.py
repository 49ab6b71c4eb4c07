"""Kafka at Arrow speed: topics of any Kafka as Arrow tables, and Arrow tables as topics.

    from headrace import columnar

    table = columnar.read("localhost:9092", "clicks").read_all()
    columnar.write("localhost:9092", "copies", table)

Needs the extra `arrow` (`pip install headrace[arrow]`).
"""

from headrace.columnar.positions import OffsetsGone
from headrace.columnar.reading import Scan, follow, read
from headrace.columnar.writing import WriteFailed, Writer, Written, write

__all__ = ["OffsetsGone", "Scan", "WriteFailed", "Writer", "Written", "follow", "read", "write"]
