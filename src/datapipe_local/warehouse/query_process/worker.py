"""Program of a child process that runs queries."""

from __future__ import annotations

import json
import math
import os
import pickle
import queue
import resource
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

from datapipe_local.warehouse.query_process.process import LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable

#: The service kills this process at the time limit. If it cannot, this process ends after these additional seconds.
_EXTRA_SECONDS = 5
_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "failed to allocate", "out of memory")


def main() -> None:
    """Run the requests of the standard input until it ends, and write their results to the standard output."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # Other systems have no working limit of the address space.
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    # Other output must not get into the replies.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    operations = _operations()
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    _send(replies, {})
    while True:
        request = requests.get()
        seconds = request.pop("seconds")
        if seconds is not None:
            signal.alarm(math.ceil(seconds) + _EXTRA_SECONDS)
        reply = _run(operations[request.pop("operation")], {**request, "memory": memory})
        signal.alarm(0)
        _send(replies, reply)


def _operations() -> dict[str, Callable[..., Any]]:
    # Imported under the memory limit.
    from datapipe_local.warehouse.query_process import preview as sample
    from datapipe_local.warehouse.query_process import report

    return {"sample": sample.sample, "report_columns": report.columns, "report_store": report.store}


def _run(operation: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    import duckdb

    from datapipe_local.warehouse.statements import WarehouseError, one_line

    try:
        return {"result": operation(**arguments)}
    except (MemoryError, duckdb.OutOfMemoryException):
        return {"memory": True}
    except duckdb.Error as error:
        text = one_line(error)
        return {"memory": True} if any(words in text.lower() for words in _OUT_OF_MEMORY) else {"error": text}
    except WarehouseError as error:
        return {"error": str(error)}
    except (ValueError, OverflowError, RecursionError) as error:
        return {"error": f"A value cannot be shown: {str(error)[:400]}. Cast it to text."}


def _receive(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Read requests. The end of the standard input means that the service has ended: end this process at once."""
    standard_input = os.fdopen(0, "rb")
    while header := standard_input.read(LENGTH.size):
        (length,) = LENGTH.unpack(header)
        requests.put(pickle.loads(standard_input.read(length)))  # noqa: S301 - the service wrote it
    os._exit(0)


def _send(replies: BinaryIO, reply: dict[str, Any]) -> None:
    message = json.dumps(reply).encode()
    view = memoryview(LENGTH.pack(len(message)) + message)
    while view:
        view = view[replies.write(view) :]
