"""Tables in files and in queries: what `export`, `import` and `sql` are made of.

Needs the extra `arrow`, so nothing outside of this package imports it before it knows that it can (`extras`). What
cannot wait for that, the names of the kinds of files, is in `kinds`.
"""
