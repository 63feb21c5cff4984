"""The server's log: JSON lines on standard error."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import TextIO

__all__ = ["json_log"]

_LOGGERS = ("beliefrag", "uvicorn", "opentelemetry")
_OURS = "beliefrag.web"


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # ASCII on one line: nothing in it can act on a terminal or pass for another line.
        return json.dumps(line)


@contextlib.contextmanager
def json_log(stream: TextIO) -> Iterator[None]:
    """Sends what this package and its server log to a stream, one JSON object per line, while it is entered."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLine())
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(list(logger.handlers), logger.propagate, logger.level) for logger in loggers]
    ours = logging.getLogger(_OURS)
    level_before = ours.level
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
    # With --debug everything is logged, and then text can be among it.
    if loggers[0].getEffectiveLevel() > logging.INFO:
        ours.setLevel(logging.INFO)
    for others in loggers[1:]:
        others.setLevel(logging.WARNING)
    try:
        yield
    finally:
        ours.setLevel(level_before)
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
