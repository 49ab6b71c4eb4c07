"""Where Spark runs unless somebody says otherwise. Nothing of Spark is needed to know it."""

from typing import Final

# Here, with as many tasks at a time as there are processors, each tried up to three times: without the second number
# Spark gives up with the first task that fails.
MASTER: Final = "local[*,3]"
