from pathlib import Path

from headrace.node.api_page import protocol_page
from headrace.node.handlers import APIS
from tests.conformance.differences import protocol_document

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol.md"


def test_the_page_in_docs_is_the_one_that_the_tables_draw() -> None:
    assert _PAGE.read_text() == protocol_document(), "run: make docs"


def test_every_served_api_has_its_row() -> None:
    rows = [line for line in protocol_page([]).splitlines() if line.startswith("| ")]
    for api in APIS.values():
        assert sum(row.startswith(f"| {api.key} | {api.messages.name} | {api.version_min}") for row in rows) == 1
    assert "| 0 | Produce | 3-13 (advertised from 0) | 9 |" in protocol_page([])


def test_places_with_one_reason_share_a_row() -> None:
    page = protocol_page([("A/x", "f", "Because."), ("B/y", "g", "Otherwise."), ("C/z", "h", "Because.")])
    assert "| `A/x`: `f`<br>`C/z`: `h` | Because. |" in page
