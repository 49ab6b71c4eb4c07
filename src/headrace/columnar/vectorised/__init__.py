"""The kernel in numpy, which is always there. This package as a module is a `columnar.kernel.Kernel`."""

from headrace.columnar.vectorised.hashing import murmur2
from headrace.columnar.vectorised.reading import gather, locate
from headrace.columnar.vectorised.writing import measure, write

__all__ = ["gather", "locate", "measure", "murmur2", "write"]
