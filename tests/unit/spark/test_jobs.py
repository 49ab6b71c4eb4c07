from headrace.spark.jobs import last_words

STORY = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
Traceback (most recent call last):
  File "worker.py", line 7, in main
{told}
	at org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:637)
Driver stacktrace:
"""


def test_what_python_said_is_the_last_word() -> None:
    told = STORY.format(told="ModuleNotFoundError: No module named 'mine'")
    assert last_words(RuntimeError(told)) == "ModuleNotFoundError: No module named 'mine'"


def test_where_python_said_nothing_it_is_sparks_own() -> None:
    words = last_words(RuntimeError(STORY.format(told="")))
    assert words.startswith("org.apache.spark.SparkException: Job aborted due to stage failure")


def test_an_error_without_words_has_its_name() -> None:
    assert last_words(KeyError()) == "KeyError"
