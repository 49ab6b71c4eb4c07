"""Every piece can be measured: the pieces are the tree's own, and move with it."""

from contextlib import ExitStack

from bench.micro import make_pairs, measure


def test_every_pair_yields_figures() -> None:
    with ExitStack() as stack:
        for pair in make_pairs(stack):
            assert pair.subject() is not None, pair.name
            cost = measure(pair, repeats=1)
            assert cost.ratios()[0] > 0
