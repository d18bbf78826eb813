"""Queries of the process table, for tests that check for leftover processes."""

from __future__ import annotations

import os
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # a dependency of Airflow, without type hints


def working_in(folder: Path) -> list[str]:
    """
    List the live processes with a working directory in or below a folder, as "pid name".

    :param folder: The folder. It may have been removed.
    """
    found = []
    for process in psutil.process_iter():
        try:
            # Linux appends " (deleted)" to the name of a removed folder.
            where = process.cwd().removesuffix(" (deleted)")
            if folder in (Path(where), *Path(where).parents) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {process.name()}")
        except psutil.Error:
            continue
    return found


def tree_of(pid: int) -> list[int]:
    """List the process IDs of a process and its descendants."""
    root = psutil.Process(pid)
    return [pid, *(process.pid for process in root.children(recursive=True))]


def lower_priority(pid: int, niceness: int) -> None:
    """
    Lower the scheduling priority of a process and its descendants.

    With ``sched_autogroup_enabled``, Linux applies the niceness of a process only within its session, and divides the
    CPU time among the sessions by their own niceness.

    :param pid: The process.
    :param niceness: The niceness from 1 to 19, for the processes and their sessions.
    """
    for each in tree_of(pid):
        os.setpriority(os.PRIO_PROCESS, each, niceness)
        session = Path(f"/proc/{each}/autogroup")
        if session.exists():
            session.write_text(str(niceness))


def alive(pid: int) -> bool:
    """Return True if the process is alive."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def listens_on(pid: int) -> set[str]:
    """List the addresses on which a process listens."""
    connections = psutil.Process(pid).net_connections()
    return {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
