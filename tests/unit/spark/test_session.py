import urllib.parse
from pathlib import Path

from headrace.spark.session import session_settings


def test_on_this_machine_nothing_listens_beyond_it() -> None:
    settings = session_settings("local[2,3]", {})
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"


def test_a_cluster_must_be_able_to_reach_the_driver() -> None:
    settings = session_settings("spark://there:7077", {})
    assert "spark.driver.bindAddress" not in settings
    assert "spark.driver.host" not in settings


def test_sparks_log_is_where_its_settings_say() -> None:
    told = session_settings("local[1]", {})["spark.driver.extraJavaOptions"]
    path = Path(urllib.parse.unquote(told.partition("=file://")[2]))
    assert "rootLogger.level = error" in path.read_text()


def test_what_is_given_wins() -> None:
    settings = session_settings("local[1]", {"spark.driver.memory": "4g", "spark.eventLog.enabled": "true"})
    assert settings["spark.driver.memory"] == "4g"
    assert settings["spark.eventLog.enabled"] == "true"
