"""Writers and readers in any order: every reader gets every message once and in order, and none waits beside data.

The readers differ in all that a reader can choose: a session or none, how much they wait for, how little they take at
once, whether they send the next fetch before the last is answered. Topics differ in when a message becomes visible.
After every step a checker that knows only the logs asks each reader that is still waiting what for.
"""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.fetch import NO_SESSION, SESSION_EPOCH_FINAL, SESSION_EPOCH_INITIAL
from tests.unit.node.driven_node import DrivenNode
from tests.unit.node.readers import Asked, Fetched, batch_of, fetch, records_in, send_produce

PARTITIONS = [("at-once", 0), ("at-once", 1), ("when-flushed", 0)]
WAIT_MS = 3_600_000
WIDE = 1 << 20


@dataclass
class Reader:
    driven: DrivenNode
    with_session: bool
    bytes_min: int
    bytes_max: int
    partition_bytes_max: int
    offsets: dict[tuple[str, int], int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    values: dict[tuple[str, int], list[bytes]] = field(default_factory=lambda: {key: [] for key in PARTITIONS})
    session: tuple[int, int] = (NO_SESSION, SESSION_EPOCH_INITIAL)
    moved: set[tuple[str, int]] = field(default_factory=set)
    waiting: Fetched | None = None

    def ask(self) -> None:
        """Send the next fetch, naming in a session only what moved since the last."""
        session_id, epoch = self.session if self.with_session else (NO_SESSION, SESSION_EPOCH_FINAL)
        named = sorted(self.moved) if session_id != NO_SESSION else PARTITIONS
        asked: list[Asked] = [(*key, self.offsets[key]) for key in named]
        self.moved.clear()
        self.waiting = fetch(
            self.driven,
            *asked,
            session=(session_id, epoch),
            wait_ms=WAIT_MS,
            bytes_min=self.bytes_min,
            bytes_max=self.bytes_max,
            partition_bytes_max=self.partition_bytes_max,
        )

    def take(self) -> bool:
        """Read the answer, if it has come."""
        if self.waiting is None or not self.waiting.is_answered():
            return False
        answer = self.waiting.wait()
        assert answer["error_code"] == 0
        for topic in answer["responses"]:
            for row in topic["partitions"]:
                assert row["error_code"] == 0
                self._take_row((topic["topic"], row["partition_index"]), row)
        self.session = (answer["session_id"], self.session[1] + 1)
        assert (answer["session_id"] != NO_SESSION) == self.with_session
        self.waiting = None
        return True

    def _take_row(self, key: tuple[str, int], row: dict[str, object]) -> None:
        for offset, value in records_in(row):
            if offset >= self.offsets[key]:  # A batch is given whole, though its first records are known.
                assert offset == self.offsets[key], "a message was left out"
                self.values[key].append(value)
                self.offsets[key] = offset + 1
                self.moved.add(key)

    def check(self) -> None:
        """A reader that waits has less to read than it waits for."""
        if self.waiting is None or self.waiting.is_answered():
            return
        readable = 0
        for (topic, index), offset in self.offsets.items():
            log = self.driven.node.topics.partition(topic, index).log
            span = log.read(offset, bytes_max=WIDE, at_least_one=True)
            readable += span[2] if span is not None else 0
        # Of a narrow answer it depends on the order how much it holds; but never nothing where there is something.
        is_wide = self.bytes_max == self.partition_bytes_max == WIDE
        assert readable < self.bytes_min if is_wide else readable == 0 or self.bytes_min > 1


READERS = st.builds(
    Reader,
    driven=st.none(),
    with_session=st.booleans(),
    bytes_min=st.sampled_from([1, 1, 1, 400, 2000]),
    bytes_max=st.sampled_from([1, 300, 1000, WIDE, WIDE]),
    partition_bytes_max=st.sampled_from([1, 200, WIDE, WIDE]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(PARTITIONS), st.integers(1, 4), st.integers(0, 400)),
        st.tuples(st.just("read"), st.integers(0, 3)),
        st.tuples(st.just("pass"), st.integers(1, 30_000)),
    ),
    min_size=10,
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32), readers=st.lists(READERS, min_size=1, max_size=4), steps=STEPS)
def test_every_reader_gets_every_message_once_and_none_waits_beside_data(
    seed: int, readers: list[Reader], steps: list[tuple[object, ...]]
) -> None:
    driven = DrivenNode(seed)
    driven.create("at-once", partitions=2)
    driven.create("when-flushed", flush_before_expose="true")
    written: dict[tuple[str, int], list[bytes]] = {key: [] for key in PARTITIONS}
    for reader in readers:
        reader.driven = driven
        reader.ask()
    number = 0
    for step in steps:
        match step:
            case ("write", (str(topic), int(index)), int(count), int(size)):
                values = [b"%06d" % (number + n) + b"x" * size for n in range(count)]
                number += count
                send_produce(driven, (topic, index, batch_of(*values)))
                written[topic, index] += values
            case ("read", int(which)):
                reader = readers[which % len(readers)]
                if reader.take() or reader.waiting is None:
                    reader.ask()
            case ("pass", int(microseconds)):
                driven.world.run_until(driven.world.mono_us() + microseconds)
        for reader in readers:
            reader.check()
    # Let everything become visible; then each reader must reach the end without ever waiting beside data.
    driven.world.run_until(driven.world.mono_us() + 1_000_000)
    for reader in readers:
        for _ in range(1000):
            if reader.values == written:
                break
            if not reader.take():
                reader.check()
                # The rest is less than it waits for: it comes when the time is up.
                assert reader.bytes_min > 1
                assert reader.waiting is not None
                assert reader.waiting.later is not None
                assert reader.waiting.later.hurry is not None
                reader.waiting.later.hurry()
                continue
            reader.ask()
        assert reader.values == written
