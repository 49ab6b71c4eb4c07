import numpy as np
import pytest

from headrace.columnar import vectorised
from headrace.columnar.kernel import choose
from headrace.columnar.opening import BATCH
from headrace.errors import ConfigError
from tests.columnar_values import COMPILED

needs_compiled = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")


def test_the_name_chooses() -> None:
    assert choose("numpy") is vectorised
    assert choose(None) is (vectorised if COMPILED is None else COMPILED)
    with pytest.raises(ConfigError, match="HEADRACE_KERNEL is 'fortran'"):
        choose("fortran")


def test_what_was_not_built_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.columnar.kernel.is_compiled", lambda: False)
    assert choose(None) is vectorised
    with pytest.raises(ConfigError, match="not built: install again, with a C compiler"):
        choose("c")


@needs_compiled
def test_the_extension_refuses_buffers_that_do_not_agree() -> None:
    """Its caller is ours alone, and a mistake there is still an error and no damage."""
    from headrace.columnar import _kernel

    data, batches = np.zeros(10, np.uint8), np.zeros(1, BATCH)
    longs, ints = np.zeros(2, np.int64), np.zeros(2, np.int32)
    with pytest.raises(TypeError):
        _kernel.locate(data, batches)
    with pytest.raises(ValueError, match="do not agree"):
        _kernel.locate(data, batches, longs, longs[:1], ints, ints, ints, ints, ints)
    batches["end"] = 11
    with pytest.raises(ValueError, match="do not agree"):
        _kernel.locate(data, batches, longs[:0], longs, ints, ints, ints, ints, ints)
    with pytest.raises(ValueError, match="do not agree"):
        _kernel.gather(data, np.array([5], np.int32), np.array([6], np.int32), ints, np.zeros(20, np.uint8))
    with pytest.raises(ValueError, match="do not agree"):
        _kernel.gather(data, np.array([0], np.int32), np.array([6], np.int32), ints, np.zeros(5, np.uint8))
    column = (np.array([0, 11]), data, None)
    with pytest.raises(ValueError, match="do not agree"):
        _kernel.murmur2(*column, ints)
    nothing = (None, None, None)
    with pytest.raises(ValueError, match="do not agree"):
        _kernel.measure(*column, *nothing, *nothing, *nothing, None, None, np.array([1]), longs)
    with pytest.raises((TypeError, BufferError, ValueError)):
        _kernel.murmur2(np.array([0, 1]), data, None, bytes(8))
