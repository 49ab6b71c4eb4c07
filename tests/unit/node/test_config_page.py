from pathlib import Path

from headrace.node.config_page import configuration_page

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"


def test_the_page_in_docs_is_the_one_that_the_tables_draw() -> None:
    assert _PAGE.read_text() == configuration_page(), "run: make docs"
