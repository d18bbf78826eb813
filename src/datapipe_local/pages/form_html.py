"""HTML of a form. All values are escaped."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from datapipe_local.pages.fields import Kind, written
from datapipe_local.pages.form import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from datapipe_local.pages.fields import Field

# Number of empty rows below the filled ones.
_EMPTY_ROWS = 2
_FIRST_ROWS = 3


class FormHtml:
    """
    Renderer of form fields.

    :param given: Field values by name.
    :param problems: Errors by field name.
    :param is_resubmitted: True if the user has filled in the form before.
    """

    def __init__(self, given: Mapping[str, str], problems: Mapping[str, str], *, is_resubmitted: bool) -> None:
        self._given = given
        self._once_more = is_resubmitted
        self._problems = problems
        #: Titles of the rendered fields by name.
        self.titles: dict[str, str] = {}

    def fields(self, fields: Sequence[Field]) -> str:
        """Return the HTML of fields. Optional JSON fields are in a collapsed section at the end."""
        rare = [field for field in fields if field.kind == Kind.WRITTEN and not field.required]
        html = "".join(self._field(field) for field in fields if field not in rare)
        if not rare:
            return html
        is_open = any(self._given.get(field.name) or field.name in self._problems for field in rare)
        inner = "".join(self._field(field) for field in rare)
        return f"{html}<details{' open' if is_open else ''}><summary>More settings</summary>{inner}</details>\n"

    def _field(self, field: Field) -> str:
        if field.kind == Kind.HIDDEN and self._once_more:
            field = replace(field, hint=f"{field.hint} Enter it again: the page never shows it.".lstrip())
        self.titles.setdefault(field.name, field.title)
        if field.kind == Kind.GROUP:
            return self._set(field, "".join(map(self._field, field.fields)))
        if field.kind == Kind.ONE_OF:
            return self._one_of(field)
        if field.kind == Kind.ROWS:
            return self._rows(field)
        if field.kind == Kind.YES_OR_NO:
            checked = " checked" if field.name in self._given else ""
            box = f'<input type="checkbox" value="yes"{checked}{self._attributes(field)}>'
            label = f'<label for="{escape(field.name)}">{box}{escape(field.title)}</label>'
            return f'<div class="field">{label}{self._notes(field)}</div>\n'
        return (
            f'<div class="field"><label for="{escape(field.name)}">{escape(field.title)}{_optional(field)}</label>'
            f"{self._notes(field)}{self._input(field)}</div>\n"
        )

    def _input(self, field: Field) -> str:
        value = self._given.get(field.name, "")
        attributes = self._attributes(field)
        if field.kind == Kind.CHOICE:
            return self._select(field, attributes, [(written(one), written(one).capitalize()) for one in field.choices])
        if field.kind == Kind.WRITTEN:
            return f"<textarea{attributes}>\n{escape(value)}</textarea>"
        if field.kind == Kind.HIDDEN:
            return f'<input type="password" autocomplete="new-password"{attributes}>'
        mode = ' inputmode="decimal"' if field.kind == Kind.NUMBER else ""
        return f'<input type="text" autocomplete="off" spellcheck="false"{mode} value="{escape(value)}"{attributes}>'

    def _select(self, field: Field, attributes: str, options: Sequence[tuple[str, str]]) -> str:
        chosen = self._given.get(field.name, written(field.default))
        empty = [] if field.required or field.default is not None else [("", "")]
        html = "".join(
            f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{escape(text)}</option>'
            for value, text in [*empty, *options]
        )
        return f"<select{attributes}>{html}</select>"

    def _one_of(self, field: Field) -> str:
        default = field.default.get(field.tag) if isinstance(field.default, dict) else field.fields[0].default
        name = f"{field.name}.{field.tag}"
        choice = replace(field, kind=Kind.CHOICE, name=name, title=f"Kind of {field.title.lower()}", default=default)
        self.titles.setdefault(name, field.title)
        options = [(written(kind.default), kind.title) for kind in field.fields]
        label = f'<label for="{escape(name)}">{escape(choice.title)}</label>'
        select = self._select(choice, self._attributes(choice), options)
        kinds = "".join(
            f'<div class="kind"><p class="hint">{escape(f"{kind.title}: {kind.hint}" if kind.hint else kind.title)}</p>'
            f"{''.join(map(self._field, kind.fields))}</div>"
            for kind in field.fields
        )
        return (
            f'<fieldset class="one-of" id="{escape(field.name)}"><legend>{escape(field.title)}</legend>'
            f'<div class="field">{label}{self._notes(choice)}{select}</div>'
            f'<div class="kinds">{kinds}</div></fieldset>\n'
        )

    def _rows(self, field: Field) -> str:
        filled = len(rows_of(field, self._given))
        number = max(filled + _EMPTY_ROWS, _FIRST_ROWS)
        rows = []
        for row in range(number):
            inner = "".join(
                # Only the first row shows hints. A row can be empty.
                self._field(replace(one, name=f"{field.name}.{row}.{one.name}", hint="" if row else one.hint))
                for one in field.fields
            )
            rows.append(f'<fieldset class="row"><legend>{row + 1}</legend>{inner}</fieldset>\n')
        # The Enter key activates the hidden button before this one.
        more = '<button name="action" value="more" formnovalidate>More rows</button>'
        return self._set(field, "".join(rows) + more, hint="Empty rows are ignored.")

    def _set(self, field: Field, content: str, hint: str = "") -> str:
        hints = "".join(f'<p class="hint">{escape(text)}</p>' for text in (field.hint, hint) if text)
        wrong = self._wrong(field)
        focus = ' tabindex="-1"' if wrong else ""
        return (
            f'<fieldset id="{escape(field.name)}"{focus}><legend>{escape(field.title)}</legend>'
            f"{hints}{wrong}{content}</fieldset>\n"
        )

    def _attributes(self, field: Field) -> str:
        name = escape(field.name)
        described = [f"{name}.hint"] if field.hint else []
        html = f' id="{name}" name="{name}"'
        if field.name in self._problems:
            described.append(f"{name}.wrong")
            html += ' aria-invalid="true"'
        if field.required and not field.in_row and field.kind not in (Kind.YES_OR_NO, Kind.CHOICE):
            html += ' aria-required="true"'
        return f'{html} aria-describedby="{" ".join(described)}"' if described else html

    def _notes(self, field: Field) -> str:
        hint = f'<p class="hint" id="{escape(field.name)}.hint">{escape(field.hint)}</p>' if field.hint else ""
        return hint + self._wrong(field)

    def _wrong(self, field: Field) -> str:
        problem = self._problems.get(field.name)
        return "" if problem is None else f'<p class="wrong" id="{escape(field.name)}.wrong">{escape(problem)}</p>'


def _optional(field: Field) -> str:
    is_optional = not field.required and not field.in_row and field.kind not in (Kind.CHOICE, Kind.YES_OR_NO)
    return ' <span class="optional">(optional)</span>' if is_optional else ""
