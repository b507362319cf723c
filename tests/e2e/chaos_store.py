"""A resource that checks tokens, as a program: `chaos_store.py LOG`. It says its port and takes writes, line by line.

A write says how long it is on its way; only then does it arrive and is judged. By then its sender may be dead.
"""

import asyncio
import json
import sys
from pathlib import Path

from chaos_log import Line, Log, now_ns


class Store:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._newest: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        try:
            while line := await reader.readline():
                write = json.loads(line)
                loop.call_later(write["in_flight_s"], self._arrives, write)
        except ConnectionResetError:
            pass  # its sender was killed; what was sent is on its way all the same
        finally:
            writer.close()

    def _arrives(self, write: Line) -> None:
        scope, token = write["res"], write["tok"]
        accepted = token >= self._newest.get(scope, 0)
        if accepted:
            self._newest[scope] = token
        self._log.say(write=write["p"], res=scope, tok=token, at=now_ns(), accepted=accepted)


async def main(log: Path) -> None:
    listener = await asyncio.start_server(Store(Log(log, "store")).serve, "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)  # noqa: T201  # this is what the harness waits for
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
