"""Serves the pages on loopback, in a thread of its own, for as long as it is entered."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from types import TracebackType

import uvicorn

from beliefrag.web.auth import AllowedHosts, BrowserKey, ServerAuth
from beliefrag.web.view.app import make_app
from beliefrag.web.view.errors import ViewError
from beliefrag.web.view.sources import Source

__all__ = ["ViewServer"]

_HOST = "127.0.0.1"
_PATIENCE = 20.0
"""Seconds within which a server must have begun."""


class ViewServer:
    """A local web server for one source.

    Args:
        source: What to show. It is closed with the server.
        port: Where to listen; 0 takes any free port.

    Raises:
        ViewError: The port cannot be had.
    """

    def __init__(self, source: Source, port: int = 0) -> None:
        self._source = source
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            self._socket.close()
            reason = error.strerror if isinstance(error, OSError) else "it is no port"
            raise ViewError(
                f"Port {port} cannot be used: {reason}.", remedy="Name another with --port, or leave the choice to us."
            ) from error
        self.port: int = self._socket.getsockname()[1]
        token, once = (secrets.token_urlsafe(24) for _ in range(2))
        self.address, self.address_once = (f"http://{_HOST}:{self.port}/?token={each}" for each in (token, once))
        """Where a browser finds it, with the key; and with one that works once, for a command line that others see."""
        self._closing = False
        app = ServerAuth(
            make_app(source, lambda: self._closing),
            credential=BrowserKey(token, once, self.port),
            hosts=AllowedHosts([_HOST, "localhost"], port=self.port, remedy=f"Use {_HOST}."),
        )
        # What goes wrong is told by the application; the server's own lines would only repeat it.
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> ViewServer:
        self._thread.start()
        until = time.monotonic() + _PATIENCE
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                raise ViewError(f"The server at port {self.port} did not begin.")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._server.should_exit = True
        self._thread.join(_PATIENCE)
        self._socket.close()
        self._source.close()
