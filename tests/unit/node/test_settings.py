import pytest

from headrace.node.settings import Invalid, Kind, Setting, Settings, parse_value, table, value_text


@table
class Pond(Settings):
    depth: int = Setting("pond.depth", Kind.INT, 3, "How deep it is.")  # type: ignore[assignment]
    fish: tuple[str, ...] = Setting("pond.fish", Kind.LIST, (), "Who lives there.")  # type: ignore[assignment]


def test_a_table_is_a_slotted_object_with_its_defaults() -> None:
    pond = Pond()
    assert (pond.depth, pond.fish) == (3, ())
    assert not hasattr(pond, "__dict__")
    assert {name: row.attribute for name, row in Pond.rows.items()} == {
        "pond.depth": "depth",
        "pond.fish": "fish",
    }


def test_values_are_given_by_attribute() -> None:
    assert Pond(depth=7).depth == 7
    with pytest.raises(TypeError, match="Pond has no setting width"):
        Pond(width=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.00025, "2.5E-4"),
        (1e-4, "1.0E-4"),
        (1 / 3e5, "3.3333333333333333E-6"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-2e-9, "-2.0E-9"),
        (True, "true"),
        (7, "7"),
        (("a", "b"), "a,b"),
        ((), ""),
        ("as it is", "as it is"),
        (None, None),
    ],
)
def test_values_are_spelled_as_java_spells_them(value: object, text: str | None) -> None:
    assert value_text(value) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [(Kind.SHORT, -(2**15), 2**15 - 1), (Kind.INT, -(2**31), 2**31 - 1), (Kind.LONG, -(2**63), 2**63 - 1)],
)
def test_whole_numbers_have_javas_bounds(kind: Kind, least: int, most: int) -> None:
    assert parse_value(kind, "n", str(least)) == least
    assert parse_value(kind, "n", str(most)) == most
    for beyond in (least - 1, most + 1):
        with pytest.raises(
            Invalid, match=f"Invalid value {beyond} for configuration n: Not a number of type {kind.name}"
        ):
            parse_value(kind, "n", str(beyond))


@pytest.mark.parametrize("text", ["", "nan", "inf", "0x1p3", "1_0", "1e", ".", "--1", "１"])
def test_what_is_no_number_is_refused(text: str) -> None:
    for kind in (Kind.INT, Kind.DOUBLE):
        with pytest.raises(Invalid, match="Not a number of type"):
            parse_value(kind, "n", text)


def test_a_secret_is_sensitive() -> None:
    assert Setting("key", Kind.PASSWORD, None, "").sensitive
    assert not Setting("key", Kind.STRING, None, "").sensitive
