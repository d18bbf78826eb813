"""What the machine's process table says, for tests that look whether something is left."""

from __future__ import annotations

from pathlib import Path

import psutil  # type: ignore[import-untyped]  # Airflow brings psutil, nobody its stubs.


def working_in(folder: Path) -> list[str]:
    """
    List the live processes that work in a folder or below it, as "pid name".

    :param folder: The folder, which may have been removed meanwhile.
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
    """
    List the pids of a process and of all below it.

    :param pid: The root of the tree.
    """
    root = psutil.Process(pid)
    return [pid, *(process.pid for process in root.children(recursive=True))]


def alive(pid: int) -> bool:
    """
    Tell whether a process lives.

    :param pid: The process.
    """
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def listens_on(pid: int) -> set[str]:
    """
    List the addresses on which a process listens.

    :param pid: The process.
    """
    connections = psutil.Process(pid).net_connections()
    return {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
