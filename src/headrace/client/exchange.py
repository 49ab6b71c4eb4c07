"""Where the thread that reads from the cluster and those that iterate over streams meet: one lock over the lanes.

Whatever touches `lanes` holds `lock`, and holds it briefly: nobody waits for the network with it. Streams end once,
for all of a consumer at the same time, either quietly or with the error that every iterator then raises.
"""

import threading
from typing import Final

from headrace.client.errors import ClientError
from headrace.client.lanes import Lanes


class Exchange:
    def __init__(self, lanes: Lanes) -> None:
        self.lock: Final = threading.Lock()
        self.lanes: Final = lanes
        self._ending: ClientError | None = None

    @property
    def is_going(self) -> bool:
        return self._ending is None

    def check_going(self) -> None:
        """Raises what ended the streams."""
        if self._ending is not None:
            # One for each who hears of it: the traceback of a shared exception would grow with every raise.
            raise type(self._ending)(str(self._ending)) from self._ending.__cause__

    def end(self, why: ClientError) -> None:
        """The first reason stays. Everybody who waits is woken."""
        with self.lock:
            if self._ending is None:
                self._ending = why
            for feeds in self.lanes.feeds.values():
                for feed in feeds:
                    feed.wake()
