"""Connections to PostgreSQL: a pool with deadlines, and its errors in one line without credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import errors, sql
from psycopg_pool import ConnectionPool, PoolTimeout

from beliefrag.errors import BeliefRAGError, RetrievalError
from beliefrag.retrieval.engines.engine import one_line

__all__ = ["BoundedConnection", "Connections", "Row", "connect", "explain_postgres_errors"]

Row = tuple[Any, ...]
Statement = LiteralString | sql.SQL | sql.Composed
Values = Sequence[Any] | Mapping[str, Any]

_ATTEMPTS = 2
_CONNECT_SECONDS = 10


class BoundedConnection(psycopg.Connection[Row]):
    """A connection on which no request waits longer than some seconds, even if the network swallows the reply."""

    seconds = 30.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for a reply.

        Raises:
            OperationalError: There was none in time; the connection is closed.
        """
        try:
            return super().wait(gen, interval, self.seconds if timeout is None else timeout)
        except errors._WaitTimeout:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server did not reply within {self.seconds:g} seconds") from None


def connect(url: str, *, seconds: float) -> BoundedConnection:
    """Open one connection, on which a request may take the given number of seconds."""
    connection = BoundedConnection.connect(
        url, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name="beliefrag"
    )
    connection.seconds = seconds
    return connection


class Connections:
    """A pool of connections that only read. A request that meets a lost connection is made once more.

    Args:
        url: The address, without a password.
        seconds: How long a request may take.
        most: How many connections are kept at most.
    """

    def __init__(self, url: str, *, seconds: float, most: int) -> None:
        # The error of a first connection names the reason in the server's words; that of the pool does not.
        connect(url, seconds=seconds).close()
        self._seconds = seconds
        settings = (
            f"-c statement_timeout={int(seconds * 1000)} -c enable_seqscan=off -c default_transaction_read_only=on"
        )
        self._pool = ConnectionPool(
            url,
            connection_class=BoundedConnection,
            kwargs={
                "autocommit": True,
                "connect_timeout": _CONNECT_SECONDS,
                "application_name": "beliefrag",
                "options": settings,
                "prepare_threshold": None,
            },
            configure=self._configure,
            min_size=0,
            max_size=most,
            timeout=min(seconds, _CONNECT_SECONDS),
            open=True,
        )

    def _configure(self, connection: BoundedConnection) -> None:
        connection.seconds = self._seconds
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    def together(self, *requests: tuple[Statement, Values]) -> list[list[Row]]:
        """Make requests that see the same state of the database, in one round trip."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._pool.connection() as connection, connection.pipeline(), connection.transaction():
                    cursors = [connection.execute(statement, values) for statement, values in requests]
                    return [cursor.fetchall() for cursor in cursors]
            except psycopg.OperationalError as problem:
                if attempt == _ATTEMPTS or isinstance(problem, errors.QueryCanceled | PoolTimeout):
                    raise
                self._pool.check()
        raise AssertionError("unreachable")

    def all(self, statement: Statement, values: Values = ()) -> list[Row]:
        """Return all rows of one request."""
        return self.together((statement, values))[0]

    def one(self, statement: Statement, values: Values = ()) -> Row:
        """Return the first row of one request, or an empty one."""
        return next(iter(self.all(statement, values)), ())

    def pages(self, statement: Statement, size: int) -> Iterator[list[Row]]:
        """Yield all rows of a request, a block at a time, without holding them all."""
        with (
            self._pool.connection() as connection,
            connection.transaction(),
            connection.cursor(name="beliefrag_pages") as cursor,
        ):
            cursor.execute(statement)
            while rows := cursor.fetchmany(size):
                yield rows

    def close(self) -> None:
        """Close all connections."""
        self._pool.close(timeout=1)


@contextmanager
def explain_postgres_errors(what: str) -> Iterator[None]:
    """Turn errors of the client library into ours; `what` was being done."""
    try:
        yield
    except BeliefRAGError:
        raise
    except psycopg.Error as problem:
        reason, remedy = one_line(problem), "Check the table and its columns."
        if isinstance(problem, errors.QueryCanceled):
            reason, remedy = f"it was not done in time ({reason})", "Raise timeout=SECONDS."
        elif isinstance(problem, psycopg.OperationalError):
            remedy = "Check that the server runs; user and password are read from PGUSER and PGPASSWORD."
        raise RetrievalError(f"{what} failed: {reason}.", remedy=remedy) from problem
