"""Properties files, as Java reads them."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.properties import parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a = 1\r\nb: 2\rc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("# comment\n  ! another\n\n \t\f\n  a=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("a==b:c", {"a": "=b:c"}),
        ("a   =   b = c  ", {"a": "b = c  "}),
        ("a=b\\\n   c\\\n\td", {"a": "bcd"}),
        ("a=b\\\n# no comment here", {"a": "b# no comment here"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
        ("a=b\\", {"a": "b"}),
        ("\\\na=1", {"a": "1"}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a=\\t\\n\\r\\f\\q\\u00e9\\\\", {"a": "\t\n\r\fqé\\"}),
        ("path=C\\:\\\\data", {"path": "C:\\data"}),
    ],
)
def test_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "\\u1=2"])
def test_a_broken_escape_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="malformed"):
        parse_properties(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*absent\.properties: No such file"):
        read_properties(tmp_path / "absent.properties")


def test_a_file_with_a_broken_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.properties"
    file.write_text("a=\\u12")
    with pytest.raises(ConfigError, match=r"broken\.properties: malformed"):
        read_properties(file)
