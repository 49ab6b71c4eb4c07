from headrace.pipeline.behind import Behind, offsets_behind


def test_the_fewest_the_most_and_the_mean() -> None:
    assert offsets_behind('{"t": {"0": 5, "1": 7}}', '{"t": {"0": 5, "1": 17}}') == Behind(0, 10, 5.0)


def test_a_partition_that_came_since_is_behind_by_all_that_it_has() -> None:
    assert offsets_behind('{"t": {"0": 5}}', '{"t": {"0": 5}, "u": {"0": 4}}') == Behind(0, 4, 2.0)


def test_before_the_first_batch_there_is_nothing_to_tell() -> None:
    assert offsets_behind(None, '{"t": {"0": 5}}') is None
    assert offsets_behind('{"t": {"0": 5}}', None) is None
    assert offsets_behind("{}", "{}") is None
