"""Small pieces of the page: text is escaped here, and nowhere else is HTML made of somebody's text."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from headrace.lab.intervals import Interval
from headrace.lab.report.scales import figures, margin_text


def chip(text: str, kind: str = "") -> str:
    return f'<li class="chip {kind}">{escape(text)}</li>'


def section(title: str, *parts: str) -> str:
    """Nothing at all of nothing."""
    body = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def charts_grid(figures_: Iterable[str]) -> str:
    drawn = "".join(figures_)
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, key: str) -> str:
    """Of cells that are whole elements."""
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    if not body:
        return ""
    return (
        f'<div class="scroll"><table data-table="{escape(key)}"><thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def head_cell(text: str, *, unit: str = "", is_number: bool = False) -> str:
    small = f"<small>{escape(unit)}</small>" if unit else ""
    return f"<th{_class('number' if is_number else '')}>{escape(text)}{small}</th>"


def row_head(text: str) -> str:
    return f'<th scope="row">{escape(text)}</th>'


def cell(text: str, *, kind: str = "") -> str:
    return f"<td{_class(kind)}>{escape(text)}</td>"


def value_cell(found: Interval | None, *, doubt: str | None = None, **data: str) -> str:
    if found is None:
        return '<td class="number">-</td>'
    mark = f'<sup title="not measurable here: {escape(doubt)}">†</sup>' if doubt else ""
    sure = f" <small>{escape(sure_text(found))}</small>" if sure_text(found) else ""
    kind = _class("number doubt" if doubt else "number")
    exact = data_attributes(**data, value=repr(found.value))
    return f"<td{kind}{exact}>{figures(found.value)}{mark}{sure}</td>"


def sure_text(found: Interval) -> str:
    return margin_text(found.low, found.high) if found.is_known else ""


def data_attributes(**data: str) -> str:
    return "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())


def facts(values: Mapping[str, str]) -> str:
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values.items())
    return f'<dl class="facts">{rows}</dl>' if rows else ""


def folded_json(title: str, value: Mapping[str, Any]) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
