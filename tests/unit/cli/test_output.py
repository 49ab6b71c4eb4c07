"""Tables and sizes."""

import pytest
from rich.text import Text

from headrace.cli.output import print_json, print_table, size_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (5 << 40, "5.0 TiB"),
        (1 << 60, "1048576.0 TiB"),
    ],
)
def test_sizes(size_bytes: int | None, text: str) -> None:
    assert size_text(size_bytes) == text


def test_a_piped_table_is_whole_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    print_table(("name", "count"), [("[bold]a", 5), (Text(long, style="red"), None)], right=("count",))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        f"{'name':<300}  count",
        f"{'[bold]a':<300}      5",
        f"{long}      -",
    ]


def test_piped_json_is_one_line_of_readable_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"name": "größe"}])
    assert capsys.readouterr().out == '[{"name": "größe"}]\n'
