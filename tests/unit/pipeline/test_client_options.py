import pytest

from headrace.columnar.writing import BATCH_BYTES, MEMORY_BYTES
from headrace.errors import ConfigError
from headrace.pipeline.client_options import ProducerOptions, take_client, take_isolation, take_producer

WHERE = {"bootstrap.servers": "here:9092"}


def test_what_every_client_has_is_in_force() -> None:
    given = {"client.id": "me", "request.timeout.ms": "500", "default.api.timeout.ms": "900", "retry.backoff.ms": "7"}
    settings = take_client({**WHERE, **given})
    assert settings.client_id == "me"
    assert (settings.request_timeout_s, settings.api_timeout_s, settings.retry_backoff_s) == (0.5, 0.9, 0.007)


@pytest.mark.parametrize(
    "name", ["fetch.max.bytes", "max.poll.records", "session.timeout.ms", "retries", "max.block.ms", "no.such.thing"]
)
def test_what_would_have_no_effect_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^kafka.{name} would have no effect"):
        take_client({**WHERE, name: "5"})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("group.id", "nothing here reads as a group"),
        ("auto.offset.reset", "use startingOffsets instead"),
        ("enable.auto.commit", "keeps its offsets itself"),
        ("interceptor.classes", "Java class"),
        ("key.deserializer", "cast the column"),
        ("value.serializer", "cast the column"),
        ("linger.ms", "as soon as Spark hands them over"),
        ("transactional.id", "at least once"),
    ],
)
def test_what_is_not_for_users_is_refused_with_a_reason(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^kafka.{name} cannot be set: .*{why}"):
        take_client({**WHERE, name: "5"})


def test_isolation() -> None:
    client = {"isolation.level": "READ_COMMITTED"}
    assert take_isolation(client)
    assert not client
    assert not take_isolation({})
    with pytest.raises(ConfigError, match="is neither read_committed nor"):
        take_isolation({"isolation.level": "read"})


def test_a_producer_by_default() -> None:
    assert take_producer({}) == ProducerOptions(
        acks="all",
        is_idempotent=True,
        compression="none",
        compression_level=None,
        batch_bytes=BATCH_BYTES,
        memory_bytes=MEMORY_BYTES,
    )


def test_what_a_producer_is_told_is_taken() -> None:
    client = {
        "acks": "1",
        "compression.type": "zstd",
        "compression.zstd.level": "5",
        "batch.size": "16384",
        "buffer.memory": "33554432",
        "client.id": "me",
    }
    assert take_producer(client) == ProducerOptions(
        acks=1,
        is_idempotent=False,
        compression="zstd",
        compression_level=5,
        batch_bytes=16384,
        memory_bytes=33554432,
    )
    assert client == {"client.id": "me"}
    assert take_producer({"acks": "-1"}).acks == "all"
    assert not take_producer({"enable.idempotence": "false"}).is_idempotent


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ({"acks": "2"}, r"kafka.acks=2 is none of 0, 1, all"),
        ({"acks": "0", "enable.idempotence": "true"}, r"kafka.enable.idempotence=true needs kafka.acks=all"),
        ({"compression.type": "brotli"}, r"kafka.compression.type=brotli is none of"),
        ({"compression.gzip.level": "5"}, r"kafka.compression.gzip.level is set, but kafka.compression.type is none"),
        ({"compression.type": "gzip", "compression.gzip.level": "high"}, r"kafka.compression.gzip.level=high is not"),
        ({"batch.size": "0"}, r"kafka.batch.size=0 is not a number of bytes from 1024 on"),
        ({"buffer.memory": "much"}, r"kafka.buffer.memory=much is not"),
        ({"enable.idempotence": "yes"}, r"kafka.enable.idempotence=yes is neither true nor false"),
    ],
)
def test_what_a_producer_is_refused(client: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        take_producer(client)
