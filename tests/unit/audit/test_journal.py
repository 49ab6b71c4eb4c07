from contextlib import closing
from pathlib import Path

import pytest

from headrace.audit.journal import Journal, settle_former
from headrace.audit.sender import RESERVED_MIN, Sender
from headrace.audit.spans import State
from headrace.audit.stamps import SpanId
from headrace.audit.windows import Window
from headrace.errors import ConfigError
from tests.unit.audit.fakes import FakeTopic

WINDOW = Window(0, 1_000)


def start(journal: Journal, topic: FakeTopic, incarnation: int) -> Sender:
    return Sender(producer="web", incarnation=incarnation, host="h", publish=topic.publish, shelf=journal)


def settle(directory: Path, topic: FakeTopic, *, boot_id: str | None = None) -> None:
    """As the next one to start does."""
    with closing(Journal(directory, boot_id=boot_id)) as journal:
        settle_former(journal, now_us=6, publish=topic.publish)


def test_what_a_killed_sender_knew_is_told_by_the_next(tmp_path: Path) -> None:
    topic = FakeTopic()
    journal = Journal(tmp_path)
    sender = start(journal, topic, settle_former(journal, now_us=5, publish=topic.publish))
    span, _ = sender.take("clicks", WINDOW, 100)
    for sequence in range(90):
        sender.settle(span, sequence, State.ACKNOWLEDGED)
    sender.settle(span, 90, State.REFUSED)
    assert [told.reserved for told in topic.newest()] == [101]
    assert topic.newest()[0].acknowledged == ()
    journal.close()  # As a kill does.

    with closing(Journal(tmp_path)) as journal:
        assert settle_former(journal, now_us=3, publish=topic.publish) == 6
    (told,) = topic.newest()
    assert (told.span, told.told_by) == (span.id, 6)
    assert (told.handed, told.reserved) == (100, 100)
    assert (told.acknowledged, told.refused, told.in_doubt) == (((0, 90),), ((90, 91),), ((91, 100),))
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_span_grows_in_its_file(tmp_path: Path) -> None:
    topic = FakeTopic()
    journal = Journal(tmp_path)
    sender = start(journal, topic, 5)
    for _ in range(10 * RESERVED_MIN):
        sender.settle(*sender.take("clicks", WINDOW), State.ACKNOWLEDGED)
    journal.close()
    settle(tmp_path, topic)
    assert topic.newest()[0].acknowledged == ((0, 10 * RESERVED_MIN),)


def test_a_sender_that_says_its_last_word_leaves_nothing_behind(tmp_path: Path) -> None:
    topic = FakeTopic()
    journal = Journal(tmp_path)
    sender = start(journal, topic, 5)
    sender.settle(*sender.take("clicks", WINDOW), State.ACKNOWLEDGED)
    sender.close()
    journal.close()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_journal_is_for_one_sender_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(ConfigError, match="in use by another sender"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_after_a_power_cut_nothing_is_claimed(tmp_path: Path) -> None:
    topic = FakeTopic()
    journal = Journal(tmp_path, boot_id="monday")
    start(journal, topic, 5).take("clicks", WINDOW)
    journal.close()
    (tmp_path / "6-0.json").write_text("")  # Another one, of which nothing reached the disk.
    (tmp_path / "6-0.states").write_bytes(b"")
    before = topic.newest()
    settle(tmp_path, topic, boot_id="tuesday")
    assert topic.newest() == before
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_span_that_was_never_used_takes_its_reservation_back(tmp_path: Path) -> None:
    topic = FakeTopic()
    journal = Journal(tmp_path)
    journal.open(SpanId("web", 5, 0), topic="clicks", window=WINDOW, host="h", size=64)
    journal.close()
    settle(tmp_path, topic)
    (told,) = topic.newest()
    assert (told.handed, told.reserved) == (0, 0)


def test_files_without_their_names_mean_nothing(tmp_path: Path) -> None:
    (tmp_path / "5-0.states").write_bytes(bytes(64))
    (tmp_path / "5-1.new").write_text("{")
    with closing(Journal(tmp_path)) as journal:
        assert list(journal.left_behind()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
