"""Which dead letters are there to be tried once more."""

from pathlib import Path

import pyarrow as pa

from headrace.ids import TopicName
from headrace.pipeline.columns import DEAD_LETTERS
from headrace.pipeline.delta import Delta
from headrace.pipeline.files import write_file
from headrace.pipeline.footers import check_files
from headrace.pipeline.location import parse_location
from headrace.pipeline.origins import Origin
from headrace.pipeline.retrying import letter_ranges
from headrace.pipeline.splitting import OffsetRange

CLICKS = Origin("cluster", TopicName("clicks"), "id-1")
ANEW = CLICKS._replace(topic_id="id-2")


def test_from_the_first_to_the_last_of_each_partition_over_all_files_and_not_beyond_its_end(tmp_path: Path) -> None:
    dead = Delta.create(parse_location(tmp_path / "dead"), DEAD_LETTERS)
    for origin, places in (
        (CLICKS, [(0, 5), (2, 7), (0, 9)]),
        (CLICKS, [(0, 3), (2, 20), (7, 1)]),  # 20 is not loaded yet, and of partition 7 nothing is.
        (ANEW, [(0, 1), (1, 1)]),
    ):
        told = {"topic": origin.topic, "cluster_id": origin.cluster_id, "topic_id": origin.topic_id}
        letters = [told | {"partition": partition, "offset": offset} for partition, offset in places]
        files = dead.location.files()
        written = write_file(files, pa.Table.from_pylist(letters, DEAD_LETTERS), {})
        assert dead.try_commit(check_files(files, [written], DEAD_LETTERS), transactions={})
    assert letter_ranges(dead, CLICKS, {0: 10, 1: 10, 2: 20, 3: 0}) == [
        OffsetRange(CLICKS.place(0), 3, 10),
        OffsetRange(CLICKS.place(2), 7, 8),
    ]
    assert letter_ranges(dead, CLICKS, {}) == []
