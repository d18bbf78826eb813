"""``init``: the home, its key, its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from datapipe_local.home import Home


def initialise(home: Home, seed_file: Path | None, wanted_key: str | None) -> Iterator[str]:
    """
    Create what is not there yet and apply the seed.

    :param home: Where.
    :param seed_file: The seed; ``None`` adds nothing.
    :param wanted_key: The API key to use; ``None`` keeps the present one, or makes one up.
    :return: What was done, in lines for a person. The key is not among them.
    """
    home.create()
    with home.locked():
        home.state.touch()
        key_written = home.keep_key(wanted_key)
        yield f"Home {home.folder}; API key in {home.key_file}" + (" (new)" if key_written else "")
