import pytest

from headrace.errors import ConfigError
from headrace.ids import TopicId, TopicName, TopicPartition
from headrace.storage import checkpoints

OFFSETS = {TopicPartition(TopicName("a.b"), 0): 5, TopicPartition(TopicName("c-1"), 12): 2**40}


def test_offsets_are_read_as_they_were_written() -> None:
    assert checkpoints.encode_offsets(OFFSETS) == b"0\n2\na.b 0 5\nc-1 12 1099511627776\n"
    assert checkpoints.decode_offsets(checkpoints.encode_offsets(OFFSETS)) == OFFSETS
    assert checkpoints.decode_offsets(checkpoints.encode_offsets({})) == {}
    assert checkpoints.decode_offsets(None) == {}


@pytest.mark.parametrize("data", [b"", b"1\n0\n", b"0\n2\na 0 5\n", b"0\n1\na 0\n", b"0\nx\n", bytes(20), b"\xff"])
def test_what_is_no_offset_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # Any: the caller does without the file.
        checkpoints.decode_offsets(data)


def test_properties_are_read_as_they_were_written() -> None:
    properties = {"node.id": "1", "cluster.id": "a=b"}
    assert checkpoints.decode_properties(checkpoints.encode_properties(properties)) == properties
    assert checkpoints.decode_properties(b"#Tue\n\n version = 1 \n") == {"version": "1"}


def test_partition_metadata_cut_anywhere_names_no_topic() -> None:
    topic_id = TopicId(bytes(range(16)))
    data = checkpoints.encode_partition_metadata(topic_id)
    assert checkpoints.decode_partition_metadata(data) == topic_id
    assert checkpoints.decode_partition_metadata(data + b"\n") == topic_id
    for size in range(len(data)):
        assert checkpoints.decode_partition_metadata(data[:size]) is None
    assert checkpoints.decode_partition_metadata(None) is None
    assert checkpoints.decode_partition_metadata(bytes(43)) is None
    assert checkpoints.decode_partition_metadata(b"topic_id: \xff") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-7", ("orders", 7)),
        ("a-b-0", ("a-b", 0)),
        ("quarantine", None),
        ("-1", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders-0.0123-delete", None),
        ("orders-²", None),
    ],
)
def test_folders_of_partitions_are_recognised(name: str, expected: tuple[str, int] | None) -> None:
    assert checkpoints.parse_partition_directory(name) == expected


def test_a_format_from_the_future_is_refused() -> None:
    checkpoints.check_meta({}, path="x")
    checkpoints.check_meta({"headrace.format": "1"}, path="x")
    with pytest.raises(ConfigError, match="format 2"):
        checkpoints.check_meta({"headrace.format": "2"}, path="x")
