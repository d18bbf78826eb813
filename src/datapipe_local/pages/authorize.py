"""Authorization page of a connection bridge, and its error pages."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from datapipe_local.pages.form_html import FormHtml
from datapipe_local.pages.frame import frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from datapipe_local.pages.fields import Field


def authorize_page(
    *,
    integration: str,
    label: str,
    target: str,
    again: bool,
    fields: Sequence[Field],
    given: Mapping[str, str],
    problems: Mapping[str, str],
) -> str:
    """
    Return the page with the settings form.

    :param integration: Name of the integration.
    :param label: Display name of the connection.
    :param target: Host that the browser is redirected to.
    :param again: True if an existing connection is authorized again.
    :param fields: Fields of the form.
    :param given: Current values of the fields, by name.
    :param problems: Errors by field name. The key "" contains an error that belongs to no field.
    """
    form = FormHtml(given, problems, is_resubmitted=again or bool(problems))
    inputs = form.fields(fields)
    verb = "Reconnect" if again else "Connect"
    heading = f"{verb} {integration}"
    content = (
        f"<h1>{escape(heading)}</h1>\n"
        f"<dl><dt>Connection</dt><dd>{escape(label)}</dd><dt>Afterwards</dt>"
        f"<dd>returns to {escape(target)}</dd></dl>\n"
        f"{_summary(problems, form.titles)}"
        '<form method="post" novalidate>\n'
        # The Enter key activates the first button of a form.
        '<button name="action" value="connect" hidden>Connect</button>\n'
        f"{inputs}"
        '<div class="actions">'
        f'<button class="main" name="action" value="connect">{verb}</button>'
        '<button name="action" value="cancel" formnovalidate>Cancel</button></div>\n</form>'
    )
    return frame(f"Error: {heading}" if problems else heading, content)


def message_page(heading: str, text: str) -> str:
    """
    Return a page with only a message.

    :param heading: Heading.
    :param text: Instruction for the user.
    """
    return frame(heading, f"<h1>{escape(heading)}</h1>\n<p>{escape(text)}</p>")


def _summary(problems: Mapping[str, str], titles: Mapping[str, str]) -> str:
    if not problems:
        return ""
    lines = []
    for name, problem in problems.items():
        if name in titles:
            lines.append(f'<li><a href="#{escape(name)}">{escape(titles[name])}</a>: {escape(problem)}</li>')
        else:
            lines.append(f"<li>{escape(f'{name}: {problem}' if name else problem)}</li>")
    heading = "<p>Correct these fields first:</p>"
    return f'<div class="summary" role="alert">{heading}<ul>{"".join(lines)}</ul></div>\n'
