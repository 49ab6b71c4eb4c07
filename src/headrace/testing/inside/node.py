"""The node of `headrace serve`, with faults between its clients and itself."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from headrace.errors import ErrorCode, ProtocolError
from headrace.ids import TopicPartition
from headrace.node.apis import Client, Parts, answer_of, framed
from headrace.node.compacting import Compaction
from headrace.node.later import Later
from headrace.node.node import Node
from headrace.protocol.messages import produce
from headrace.testing.inside.fault_table import FaultTable, LaidFault
from headrace.testing.inside.refusals import refusal
from headrace.testing.inside.requests import AskedRequest


class EmbeddedNode(Node):
    def __init__(self, *, faults: FaultTable, **ports: Any) -> None:
        super().__init__(**ports)
        self._faults = faults
        # Set before another takes its place: whoever waits for an answer that was dropped is then cut off.
        self.is_ending = False

    def take(self, frame: memoryview, client: Client) -> Parts | Later[Parts] | None:
        if self._faults.of_requests:
            asked = AskedRequest(self, frame, client)
            fault = next(filter(asked.meets, self._faults.of_requests), None) if asked.is_served else None
            if fault is not None:
                self._faults.meet(fault)
                self.finish_frames()  # What came before it on this connection is not its business.
                return self._suffer(fault, asked)
        return super().take(frame, client)

    def handle_faultless(self, frame: memoryview, client: Client) -> Parts | Later[Parts] | None:
        """As `handle`, for whoever controls the faults."""
        try:
            return super().take(frame, client)
        finally:
            self.finish_frames()

    def _suffer(self, fault: LaidFault, asked: AskedRequest) -> Parts | Later[Parts] | None:
        spec = fault.spec
        carry_out = partial(super().take, asked.frame, asked.client)
        wants_answer = asked.key != produce.API.key or asked.body["acks"] != 0
        if spec.kind == "delay":
            return self._late(carry_out(), round(spec.delay_ms * 1000))
        if spec.kind == "error":
            if not wants_answer:
                raise ProtocolError(f"refused by a fault, with no other way to say so: {spec}")
            api = asked.node.apis[asked.key]
            answer = answer_of(api, refusal(asked, ErrorCode(spec.error_code), topic=spec.topic), asked.version)
            return framed(answer, api=api, version=asked.version, correlation_id=asked.correlation_id)
        if spec.handled:
            carry_out()
        if spec.kind == "disconnect":
            raise ProtocolError(f"cut off by a fault: {spec}")
        assert spec.kind == "drop"
        return self._never() if wants_answer else None

    def _never(self) -> Later[Parts]:
        """No answer; but a client that has gone away, or shut its end, is let go."""
        never: Later[Parts] = Later()

        def hurry() -> None:
            if not self.is_ending:
                never.resolve([b""])

        never.hurry = hurry
        return never

    def _late(self, answer: Parts | Later[Parts] | None, delay_us: int) -> Later[Parts] | None:
        if answer is None:
            return None
        late: Later[Parts] = Later()

        def hold(parts: Parts) -> None:
            self.timers.at(self.clock.mono_us() + delay_us, partial(late.resolve, parts))

        if isinstance(answer, Later):
            late.hurry = answer.hurry
            answer.then(hold)
        else:
            hold(answer)
        return late

    def look_for_expired(self) -> None:
        """What upkeep does from time to time, now: the wall clock was moved."""
        self.delete_expired()
        now_ms = self.clock.wall_ms()
        for log in self.data.logs.values():
            log.producers.expire(now_ms=now_ms, expiration_ms=self.config.producer_id_expiration_ms)
        self.groups.forget_expired()

    @property
    def is_loading_groups(self) -> bool:
        return self.groups.statistics().shards_loading > 0

    def log_ends(self) -> dict[TopicPartition, int]:
        return {name: log.end_offset for name, log in self.data.logs.items()}

    def look_for_dirt(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether something is being compacted now of what was there when the logs had these ends."""
        if all(dirt.start_offset >= ends.get(name, 0) for _, name, dirt in self.cleanings.find_due()):
            return False
        self.cleanings.look()
        return self.is_compacting

    @property
    def is_compacting(self) -> bool:
        return self.cleanings.statistics().running is not None

    @property
    def passing_failures(self) -> int:
        """How many cleanings failed whose logs are not left alone for that."""
        seen = self.cleanings.statistics()
        return seen.failures - seen.uncleanable

    @property
    def cleanings(self) -> Compaction:
        assert self.compaction is not None
        return self.compaction
