"""A scripted model in a process of its own, which a test kills and starts again at the same port.

Arguments: the text of its replies, its port (0: any), seconds per reply. It prints its port when it accepts requests.
"""

from __future__ import annotations

import subprocess
import sys
import time

from tests.scripted import Completion, ScriptedModel


class LoneServer:
    """The process. Use it as a context manager.

    Args:
        text: Text of every reply.
        delay: Seconds per reply.
    """

    def __init__(self, text: str, delay: float = 0.0) -> None:
        self.text = text
        self.delay = delay
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        words = [sys.executable, "-m", __name__, self.text, str(self.port), str(self.delay)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> LoneServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


if __name__ == "__main__":
    said, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with ScriptedModel(lambda _: Completion(said, delay=seconds), port=port).running() as server:
        print(server.url.rpartition(":")[2].removesuffix("/v1"), flush=True)
        time.sleep(600)
