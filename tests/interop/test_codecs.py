"""A codec asked for is a codec used.

A client that decides that a broker cannot take one sends its records uncompressed and says nothing, and they come
back whole all the same. So the batches are looked at where they are kept.
"""

import pytest

from tests.clients.drivers import CODECS, DRIVERS
from tests.interop import python_clients
from tests.interop.clients import CLIENTS
from tests.interop.exchange import Exchange, topic_of
from tests.interop.records import PARTITIONS
from tests.interop.test_clients import usable


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", [*CLIENTS, *DRIVERS])
def test_the_batches_kept_have_the_codec_asked_for(exchange: Exchange, producer: str, codec: str) -> None:
    if producer in DRIVERS:
        python_clients.sent(exchange, producer)
    else:
        usable(producer)
        exchange.sent(producer)
    used = codecs_kept(exchange, topic_of(producer, f"codec-{codec}"))
    # Any client may leave a batch as it is that would only grow.
    assert used - {"none"} == {codec} - {"none"}


def codecs_kept(exchange: Exchange, topic: str) -> set[str]:
    """By the lowest bits of each batch's attributes: base offset 8, size 4, epoch 4, magic 1, checksum 4, then they."""
    found = set()
    for partition in range(PARTITIONS):
        for segment in exchange.broker.partition_dir(topic, partition).glob("*.log"):
            data, position = segment.read_bytes(), 0
            while position < len(data):
                found.add(CODECS[int.from_bytes(data[position + 21 : position + 23], "big") & 7])
                position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found
