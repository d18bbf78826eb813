"""YAML 1.2 for files of users. PyYAML reads YAML 1.1, in which ``no`` is a boolean, and ``12:30`` a number."""

from __future__ import annotations

from math import isfinite
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent

from airflow_provider_datapipe.api.models.formats.yaml_reader import YamlLibrary

YAML_1_2 = YamlLibrary(
    lambda text: YAML(typ="safe", pure=True).compose(text),
    lambda text: YAML(typ="safe", pure=True).parse(text),
    YAMLError,
    CollectionStartEvent,
    CollectionEndEvent,
)


def scalar_value(node: Any) -> Any:
    """
    Return the value of a node that is neither a mapping nor a sequence, as JSON. Dates are text.

    :param node: a node of :data:`YAML_1_2`.
    :raises ValueError: if JSON has no such value. The message describes the value.
    """
    try:
        return _SCALARS[str(node.tag).rpartition(":")[2]](node.value)
    except UnicodeEncodeError:
        raise ValueError(
            "text must not contain unpaired surrogates such as \\ud800, which UTF-8 can't encode"
        ) from None
    except (KeyError, ValueError):
        raise ValueError(f"the value {node.value[:40]!r} is not allowed here: put text in quotes") from None


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _text(text: str) -> str:
    # An escape in double quotes can stand for half of a character.
    text.encode()
    return text


def _whole(text: str) -> int:
    plain = text.replace("_", "")
    return int(plain, 0) if plain.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(plain)


def _real(text: str) -> float:
    value = float(text.replace("_", ""))
    if not isfinite(value):
        raise ValueError
    return value


_SCALARS: dict[str, Any] = {
    "null": lambda _: None,
    "bool": _boolean,
    "int": _whole,
    "float": _real,
    "timestamp": str,
    "str": _text,
    "value": str,
}
