"""The memory budget and the buffers behind it."""

from headrace.server.memory import FrameBuffers, MemoryBudget

MIB = 1 << 20


class TestBudget:
    def test_what_is_claimed_is_counted_even_beyond_it(self) -> None:
        budget = MemoryBudget(100)
        budget.claim(60)
        budget.claim(60)
        assert budget.statistics() == (120, 100, 0, 120)
        budget.give_back(120)
        assert budget.statistics() == (0, 100, 0, 120)

    def test_it_is_spent_when_nothing_is_left(self) -> None:
        budget = MemoryBudget(100)
        seen = []
        for size in (99, 1, 5):
            budget.claim(size)
            seen.append((budget.is_spent, budget.left_bytes))
        assert seen == [(False, 1), (True, 0), (True, 0)]

    def test_who_waits_goes_on_in_the_order_of_coming(self) -> None:
        budget = MemoryBudget(100)
        budget.claim(150)
        order: list[str] = []
        budget.wait(lambda: order.append("first"))
        budget.wait(lambda: order.append("second"))
        budget.give_back(50)
        assert order == []
        assert budget.statistics().waiting == 2
        budget.give_back(1)
        assert order == ["first", "second"]
        assert not budget.has_waiting

    def test_who_claims_again_makes_the_next_wait(self) -> None:
        budget = MemoryBudget(100)
        budget.claim(100)
        order: list[str] = []

        def go_on(name: str) -> None:
            order.append(name)
            budget.claim(100)

        budget.wait(lambda: go_on("first"))
        budget.wait(lambda: go_on("second"))
        budget.give_back(100)
        assert order == ["first"]
        budget.give_back(100)
        assert order == ["first", "second"]

    def test_who_waits_again_while_it_goes_on_is_not_called_at_once(self) -> None:
        budget = MemoryBudget(100)
        budget.claim(100)
        calls: list[int] = []

        def again() -> None:
            calls.append(len(calls))
            budget.claim(100)
            budget.wait(again)

        budget.wait(again)
        budget.give_back(100)
        assert calls == [0]


class TestFrameBuffers:
    def test_a_buffer_holds_the_frame(self) -> None:
        buffers = FrameBuffers()
        for size in (1, 4096, 4097, 100_000, 5 * MIB):
            assert len(buffers.take(size)) >= size

    def test_a_buffer_given_back_is_taken_again_for_a_frame_of_its_kind(self) -> None:
        buffers = FrameBuffers()
        first = buffers.take(100_000)
        buffers.give_back(first)
        assert buffers.take(120_000) is first
        assert buffers.take(120_000) is not first

    def test_what_is_kept_is_bounded(self) -> None:
        buffers = FrameBuffers()
        taken = [buffers.take(4 * MIB) for _ in range(10)]
        for buffer in taken:
            buffers.give_back(buffer)
        kept = [buffer for buffer in taken if not buffer.closed]
        assert len(kept) * 4 * MIB == 16 * MIB

    def test_large_ones_are_not_kept(self) -> None:
        buffers = FrameBuffers()
        buffer = buffers.take(90 * MIB)
        buffers.give_back(buffer)
        assert buffer.closed

    def test_one_that_is_still_looked_at_is_not_torn_away(self) -> None:
        buffers = FrameBuffers()
        buffer = buffers.take(90 * MIB)
        with memoryview(buffer) as view:
            buffers.give_back(buffer)
            assert view[0] == 0
