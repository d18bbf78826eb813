"""Writes the page of all endpoints from their functions, whenever the docs are built."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider_datapipe.api.endpoints import ENDPOINTS, FUNCTIONS
from airflow_provider_datapipe.api.request import NO_CONTENT, Endpoint, Repeat

PAGE = Path(__file__).with_name("endpoints.md")

_INTRODUCTION = """\
# Endpoints

Each endpoint of the interface is a function that makes a request and sends nothing; the hook sends it, and gives the
typed answer:

```python
from airflow_provider_datapipe.api.endpoints import transforms
from airflow_provider_datapipe.hooks.datapipe import DatapipeHook

transform = DatapipeHook().send(transforms.create(name="orders", sql_template="SELECT 1"))
```

What is not said is not sent, so that the service's defaults hold; `UNSET` stands for that in signatures. What the
interface forbids is refused with `InvalidInputError` before anything is sent. Beside the errors that are named here,
every endpoint can fail with those of `airflow_provider_datapipe.api.errors` that are about reaching the service, the
API key and the rate limit. *Sent again* says whether the client repeats a request when it can't know whether the
service carried it out.

"""

_SENT_AGAIN = {
    Repeat.READ: "yes: it changes nothing.",
    Repeat.IDEMPOTENT: "yes: twice leaves what once leaves.",
    Repeat.STARTS_A_RUN: "no: it may start a second run.",
    Repeat.CREATES: "no: it may create a second one.",
}


def page() -> str:
    """Give the text of the page."""
    parts = [_INTRODUCTION]
    for module in sorted({name.partition(".")[0] for name in ENDPOINTS}):
        title = inspect.getdoc(sys.modules[f"airflow_provider_datapipe.api.endpoints.{module}"])
        parts.append(f"## {module}\n\n{title}\n\n")
        parts += [_entry(endpoint) for name, endpoint in ENDPOINTS.items() if name.partition(".")[0] == module]
    return "".join(parts)


def write(*_: object) -> None:
    """Write the page; Sphinx calls this with itself."""
    PAGE.write_text(page(), encoding="utf-8")


def _entry(endpoint: Endpoint[Any]) -> str:
    text, params, raises, source = _read(inspect.getdoc(FUNCTIONS[endpoint.name]) or "")
    lines = [f"### {endpoint.name}", "", f"`{endpoint.method} {endpoint.path}`", ""]
    lines += ["```python", _signature(endpoint), "```", "", text, ""]
    if params:
        lines += ["| Argument | Meaning |", "|---|---|", *_rows(params), ""]
    if raises:
        lines += ["| Error | When |", "|---|---|", *_rows(raises), ""]
    lines += [f"Sent again: {_SENT_AGAIN[endpoint.repeat]}", "", f"Source: {source}", "", ""]
    return "\n".join(lines)


def _read(documentation: str) -> tuple[str, dict[str, str], dict[str, str], str]:
    """Take a docstring apart: the text, the parameters, the errors, the source."""
    text, _, source = documentation.partition("\nSource: ")
    head, *fields = re.split(r"^:(param|raises) (\w+): ", text, flags=re.MULTILINE)
    found: dict[str, dict[str, str]] = {"param": {}, "raises": {}}
    for kind, name, meaning in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        found[kind][name] = " ".join(meaning.split())
    return head.strip(), found["param"], found["raises"], source.strip()


def _rows(cells: dict[str, str]) -> Iterator[str]:
    return (f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |" for name, meaning in cells.items())


def _signature(endpoint: Endpoint[Any]) -> str:
    """Write how the function is called, and what the hook answers."""
    function = FUNCTIONS[endpoint.name]
    module = endpoint.name.partition(".")[0]
    answer = "None" if endpoint.answer is NO_CONTENT else endpoint.answer.__name__
    lines, is_keyword = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            lines.append("    *,")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"    {parameter.name}: {parameter.annotation}{default},")
    arguments = "\n" + "\n".join(lines) + "\n" if lines else ""
    return f"{module}.{function.__name__}({arguments}) -> Request[{answer}]"


if __name__ == "__main__":
    write()
