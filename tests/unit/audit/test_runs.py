from headrace.audit.runs import both, coarsen, minus, run, runs_of, size, union


def test_runs_are_joined_where_they_touch_or_overlap() -> None:
    assert runs_of([(5, 7), (0, 2), (2, 3), (6, 9), (4, 4)]) == ((0, 3), (5, 9))


def test_an_empty_run_is_nothing() -> None:
    assert run(3, 3) == run(4, 3) == runs_of([]) == union() == ()


def test_set_algebra() -> None:
    some = ((0, 10), (20, 30))
    assert minus(some, ((5, 25),)) == ((0, 5), (25, 30))
    assert minus(some, ((1, 2), (3, 4), (29, 40))) == ((0, 1), (2, 3), (4, 10), (20, 29))
    assert both(some, ((5, 25),)) == ((5, 10), (20, 25))
    assert union(some, ((10, 20),)) == ((0, 30),)
    assert size(some) == 20


def test_a_coarser_set_has_the_smallest_gaps_filled() -> None:
    some = ((0, 1), (2, 3), (10, 11), (13, 14))
    assert coarsen(some, count_max=4) == some
    assert coarsen(some, count_max=3) == ((0, 3), (10, 11), (13, 14))
    assert coarsen(some, count_max=2) == ((0, 3), (10, 14))
    assert coarsen(some, count_max=1) == ((0, 14),)
