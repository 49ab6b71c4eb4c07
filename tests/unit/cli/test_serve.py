"""The words of `headrace serve`."""

from pathlib import Path

import pytest

from headrace.cli.serve import main, parse_arguments
from headrace.errors import ConfigError
from headrace.server.options import HostPort, ServeOptions, parse_host_port


def test_nothing_said_is_nothing_decided() -> None:
    assert parse_arguments([]) == ServeOptions()


def test_everything_said() -> None:
    arguments = "--listen 127.0.0.1:0 --advertise broker.example:9092 --data d --config f --http [::1]:80"
    assert parse_arguments([*arguments.split(), "--log-level=debug"]) == ServeOptions(
        listen=HostPort("127.0.0.1", 0),
        advertise=HostPort("broker.example", 9092),
        data=Path("d"),
        config_file=Path("f"),
        http=HostPort("::1", 80),
        log_level="debug",
    )


def test_settings_are_cut_at_the_first_equals_sign_and_the_last_one_wins() -> None:
    words = ["-o", "a.b=c=d", "-o", "num.partitions=1", "-o", "num.partitions=2", "-o", "empty="]
    assert parse_arguments(words).overrides == {"a.b": "c=d", "num.partitions": "2", "empty": ""}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--listen", "nowhere"], "--listen: 'nowhere' is not HOST:PORT"),
        (["--listen", "h:65536"], "port from 0 to 65535"),
        (["--listen", "::1:9092"], "brackets"),
        (["--listen"], "expected one argument"),
        (["-o", "novalue"], "-o: 'novalue' is not KEY=VALUE"),
        (["-o", "=value"], "is not KEY=VALUE"),
        (["--log-level", "loud"], "loud"),
        (["--dat", "d"], "--dat"),
        (["stray"], "stray"),
    ],
)
def test_a_wrong_word_is_one_line_and_status_2(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(words)
    assert exit_info.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("headrace serve: ")
    assert complaint in shown.err
    assert shown.err.count("\n") == 1


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--help"])
    assert exit_info.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--listen", "--advertise", "--data", "--config", "-o", "--http", "--log-level"):
        assert option in shown


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:9092", "127.0.0.1", 9092), (":0", "", 0), ("[::1]:65535", "::1", 65535), ("h:09", "h", 9)],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_host_port(text) == HostPort(host, port)


@pytest.mark.parametrize("text", ["", ":", "h:", "9092", "h:-1", "h:1x", "h:٣", "[::1]", "a:b:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"HOST:PORT|brackets"):
        parse_host_port(text)


@pytest.mark.parametrize("text", ["127.0.0.1:9092", "[::1]:1", "broker.example:0"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_host_port(text)) == text
