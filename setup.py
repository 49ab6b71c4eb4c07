"""The part of the build that pyproject.toml has no words for: the compiled kernel of the columnar client.

It is optional. Without a compiler the install succeeds, and `headrace.columnar` does the same work in numpy. Built
against Python's limited API, one wheel serves every Python from 3.11 on.
"""

from setuptools import Extension, setup

KERNEL = Extension(
    "headrace.columnar._kernel",
    ["src/headrace/columnar/_kernel.c"],
    extra_compile_args=["-std=c11", "-O2"],
    optional=True,
    py_limited_api=True,
)

setup(ext_modules=[KERNEL], options={"bdist_wheel": {"py_limited_api": "cp311"}})
