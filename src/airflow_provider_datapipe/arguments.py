"""
Checks of the arguments of operators, sensors and functions, against the annotations of their signatures.

An annotation is read as text, so that DAG files import nothing for it. Annotations that are not known here, such as
``Any`` or ``Callable``, allow all values.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from functools import cache, wraps
from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from airflow.sdk.definitions._internal.types import SET_DURING_EXECUTION

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator as _Base
    from airflow.sdk import Context
else:
    _Base = object

#: A timedelta, seconds, or text such as ``6h``.
Duration: TypeAlias = timedelta | float | str
F = TypeVar("F", bound=Callable[..., Any])

_TEMPLATE_MARKS = ("{{", "{%", "{#")
_PACKAGE = __name__.partition(".")[0]
#: The most characters of a value that a message shows.
_LONGEST = 60


class _Form(NamedTuple):
    """
    One form of the values that an argument takes.

    :param description: the form in a message.
    :param allows: returns True if a value has the form.
    :param reads: returns True if a text, as templates render it, stands for such a value.
    :param words: the allowed values, if there are few.
    :param is_private: whether a value that does not fit may hold secrets.
    """

    description: str
    allows: Callable[[Any], bool]
    reads: Callable[[str], bool] | None = None
    words: tuple[Any, ...] = ()
    is_private: bool = False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_duration(value: Any) -> bool:
    return isinstance(value, timedelta) or (_is_number(value) and isfinite(value))


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) or is_reference(each) for each in value)


_FORMS: dict[str, _Form] = {
    "None": _Form("None", lambda value: value is None),
    "str": _Form("text", lambda value: isinstance(value, str)),
    "bool": _Form(
        "True or False",
        lambda value: isinstance(value, bool),
        reads=lambda text: text.strip().lower() in ("true", "false"),
    ),
    "int": _Form(
        "a whole number",
        lambda value: isinstance(value, int) and not isinstance(value, bool),
        reads=lambda text: re.fullmatch(r"\s*-?\d+\s*", text, re.ASCII) is not None,
    ),
    "float": _Form("a number", _is_number),
    "Duration": _Form("a duration such as '6h', timedelta(hours=6) or 21600 (seconds)", _is_duration),
    "datetime": _Form("a datetime", lambda value: isinstance(value, datetime)),
    "dt.date": _Form("a date", lambda value: isinstance(value, date)),
    "list[str]": _Form("a list of texts", _is_list_of_text),
    "Sequence[str]": _Form("a list of texts", _is_list_of_text),
    "list": _Form("a list", lambda value: isinstance(value, list | tuple)),
    "Sequence": _Form("a list", lambda value: isinstance(value, list | tuple)),
    "dict": _Form("a dict", lambda value: isinstance(value, Mapping), is_private=True),
    "Mapping": _Form("a dict", lambda value: isinstance(value, Mapping), is_private=True),
    "Path": _Form("a path", lambda value: isinstance(value, Path)),
}


def check_argument(name: str, value: Any, annotation: str, *, is_templated: bool = False) -> Any:
    """
    Return the value of an argument, a text for a duration as a timedelta.

    :param name: name of the argument.
    :param value: its value. Templates and outputs of other tasks are allowed where the argument is templated.
    :param annotation: its annotation.
    :param is_templated: whether Airflow renders the argument.
    :raises ValueError: if the annotation does not allow the value. The message contains no value of a dict or list,
        and no text where a dict is expected.
    """
    if is_templated and _is_rendered_later(value):
        return value
    return _check_value(name, value, annotation, is_templated=is_templated)


def _check_value(name: str, value: Any, annotation: str, *, is_templated: bool) -> Any:
    forms = _forms(annotation)
    if forms is None:
        return value
    if isinstance(value, str) and _FORMS["Duration"] in forms:
        with suppress(ValueError, OverflowError):
            # A number in a template is rendered to a text.
            is_number = is_templated and value.strip().isdecimal()
            return timedelta(seconds=float(value) if is_number else seconds(value))
    elif isinstance(value, str) and (reads := _reads_of(forms)):
        if reads(value) or (_FORMS["None"] in forms and value.strip() in ("", "None", "null")):
            return value
        forms = tuple(form for form in forms if form != _FORMS["str"])
    elif any(form.allows(value) for form in forms):
        return value
    raise ValueError(_message(name, forms, value))


def _reads_of(forms: tuple[_Form, ...]) -> Callable[[str], bool] | None:
    """Return the check of a text, if texts are allowed only because templates are rendered to them."""
    others = [form for form in forms if form not in (_FORMS["str"], _FORMS["None"])]
    return others[0].reads if len(others) == 1 and _FORMS["str"] in forms else None


def seconds(value: Duration) -> float:
    """
    Return a duration in seconds.

    :param value: the duration.
    :raises ValueError: if a text is not a duration.
    """
    if isinstance(value, str):
        from airflow_provider_datapipe.durations import parse_duration

        value = parse_duration(value)
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def check_range(name: str, value: Duration | None, *, can_be_zero: bool = False) -> None:
    """
    Check that a duration is positive.

    :param name: name of the argument.
    :param value: its value. None is allowed.
    :param can_be_zero: whether 0 is allowed.
    :raises ValueError: if the duration is out of this range.
    """
    if value is None or seconds(value) > 0 or (can_be_zero and seconds(value) == 0):
        return
    raise ValueError(f"{name} must be {'0 seconds or more' if can_be_zero else 'more than 0 seconds'}, not {value}")


def whole_seconds(name: str, value: Any) -> int:
    """
    Return a templated duration in whole seconds; a fraction of a second counts as a second.

    :param name: name of the argument.
    :param value: its value after rendering.
    :raises ValueError: if it is not a duration.
    """
    return ceil(seconds(_check_value(name, value, "Duration", is_templated=True)))


def is_literal(value: object) -> bool:
    """Return True for a text that is known when the DAG is parsed: not empty, and without a template."""
    return isinstance(value, str) and value != "" and not any(mark in value for mark in _TEMPLATE_MARKS)


def is_reference(value: Any) -> bool:
    """Return True for a value that is known only when the task runs: an output of another task, or a computed one."""
    return value is SET_DURING_EXECUTION or (hasattr(value, "iter_references") and hasattr(value, "resolve"))


def exactly_one(**given: object) -> None:
    """
    Check that exactly one of several arguments is given.

    :param given: the arguments.
    :raises ValueError: if none or several are given.
    """
    if sum(value is not None for value in given.values()) != 1:
        raise ValueError(f"give exactly one of {' and '.join(given)}")


def identify_stream(stream_id: object, stream_name: object, **sync: object) -> None:
    """
    Check that a stream is identified by its ID, or by its name and one argument that identifies its sync.

    :param stream_id: ID of the stream.
    :param stream_name: its name.
    :param sync: the arguments that identify the sync.
    :raises ValueError: if arguments are missing or superfluous.
    """
    given = [name for name, value in {"stream_name": stream_name, **sync}.items() if value is not None]
    if stream_id is not None:
        if given:
            raise ValueError(f"stream_id already identifies the stream; remove {' and '.join(given)}")
    elif stream_name is None or len(given) != len(("stream_name", "sync")):
        raise ValueError(f"give stream_id, or stream_name and {' or '.join(sync)}")


def checked(function: F) -> F:
    """Decorate a function so that its arguments are checked against its annotations."""
    positional = inspect.getfullargspec(inspect.unwrap(function)).args

    @wraps(function)
    def check_and_call(*args: Any, **kwargs: Any) -> Any:
        for name, value in (*zip(positional, args, strict=False), *kwargs.items()):
            check_argument(name, value, function.__annotations__.get(name, "Any"))
        return function(*args, **kwargs)

    return check_and_call  # type: ignore[return-value]  # it has the signature of the function


class CheckedArguments(_Base):
    """
    Mixin for operators and sensors: checks arguments when the DAG is parsed, and templated ones when rendered.

    If a base class sets ``declared_arguments``, the signatures of its subclasses declare their arguments: each argument
    becomes an attribute before the body of ``__init__`` runs, and a template field.
    """

    #: Arguments that the signatures of this class and its bases declare; None if classes set attributes by themselves.
    declared_arguments: ClassVar[tuple[str, ...] | None] = None
    #: Arguments in the signature of this class that are not template fields.
    not_templated: ClassVar[tuple[str, ...]] = ()
    #: Lists that must not be empty, and the meaning of the argument's absence.
    non_empty_lists: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Arguments of classes that a DAG file defines are neither checked nor declared.
        if not _is_of_package(cls):
            return
        init = vars(cls).get("__init__")
        declared: Sequence[str] = ()
        if cls.declared_arguments is not None and "declared_arguments" not in vars(cls):
            declared = () if init is None else _keyword_arguments(init)
            _declare(cls, declared)
        if init is not None:
            cls.__init__ = _checked_init(init, declared)  # type: ignore[method-assign]  # same signature

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """
        Map the task, with the arguments that all of its instances share.

        :raises ValueError: if an argument has a wrong form.
        """
        annotations = _annotations(cls)
        for name, value in kwargs.items():
            if name in annotations:
                with _place_in_errors(kwargs):
                    kwargs[name] = _check(cls, name, value, annotations[name])
        mapped = super().partial(**kwargs)
        # Airflow applies the defaults of a DAG or a group when the task runs.
        above = [place.default_args for each in ("dag", "task_group") if (place := mapped.kwargs.get(each))]
        defaults = {name: each for given in (*above, kwargs.get("default_args") or {}) for name, each in given.items()}
        with _place_in_errors(mapped.kwargs | {"task_group": None}):
            for name in defaults.keys() & annotations.keys() - kwargs.keys():
                _check(cls, name, defaults[name], annotations[name])
        return mapped

    def pre_execute(self, context: Context) -> None:
        """
        Check rendered arguments.

        :param context: Airflow's context.
        :raises ValueError: if an argument has rendered to a wrong form.
        """
        super().pre_execute(context)
        annotations = _annotations(type(self))
        for name in {*self.template_fields} & annotations.keys():
            value = getattr(self, name)
            if _is_identifier(value, annotations[name]):
                # render_template_as_native_obj has converted the text to a number.
                setattr(self, name, str(value))
                continue
            if not is_reference(value):
                with _place_in_errors({"task_id": self.task_id, "dag": self.get_dag()}):
                    _check_rendered(type(self), name, value, annotations[name])


@contextmanager
def _place_in_errors(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Add the task to errors about arguments, once."""
    try:
        yield
    except (ValueError, TypeError) as error:
        place = _place(arguments)
        # Subclasses, such as those of pydantic, cannot be made from a text.
        if type(error) not in (ValueError, TypeError) or str(error).startswith(place):
            raise
        raise type(error)(f"{place}: {error}").with_traceback(error.__traceback__) from None


def _keyword_arguments(init: Callable[..., None]) -> Sequence[str]:
    code = init.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _declare(cls: type[CheckedArguments], declared: Sequence[str]) -> None:
    """Add the declared arguments of a class to those of its bases, and to the template fields."""
    # The first base is the most specific one, so that its arguments come last.
    bases = cls.__bases__[::-1]

    def inherited(attribute: str) -> list[str]:
        return [name for base in bases for name in getattr(base, attribute, None) or ()]

    cls.declared_arguments = tuple(dict.fromkeys((*inherited("declared_arguments"), *declared)))
    if "template_fields" not in vars(cls):
        templated = (name for name in declared if name not in cls.not_templated)
        cls.template_fields = tuple(dict.fromkeys((*inherited("template_fields"), *templated)))


def _checked_init(init: Callable[..., None], declared: Sequence[str]) -> Callable[..., None]:
    defaults = init.__kwdefaults__ or {}
    own = {name: each for name, each in init.__annotations__.items() if name not in ("return", "kwargs")}

    @wraps(init)
    def check_and_init(self: Any, **kwargs: Any) -> None:
        with _place_in_errors(kwargs):
            for name, annotation in own.items():
                if name in kwargs:
                    kwargs[name] = _check(type(self), name, kwargs[name], annotation)
            for name in declared:
                setattr(self, name, kwargs[name] if name in kwargs else defaults[name])
            init(self, **kwargs)

    return check_and_init


def _check(cls: type[CheckedArguments], name: str, value: Any, annotation: str) -> Any:
    _check_items(cls, name, value)
    return check_argument(name, value, annotation, is_templated=name in cls.template_fields)


def _check_rendered(cls: type[CheckedArguments], name: str, value: Any, annotation: str) -> None:
    _check_items(cls, name, value)
    # Missing values, and data with braces, are known only after rendering. The task itself parses texts.
    forms = _forms(annotation)
    if forms is None or not (isinstance(value, str) and _FORMS["str"] in forms):
        _check_value(name, value, annotation, is_templated=True)


def _check_items(cls: type[CheckedArguments], name: str, value: Any) -> None:
    if name in cls.non_empty_lists and isinstance(value, list | tuple) and not value:
        raise ValueError(f"{name} is empty; omit it for {cls.non_empty_lists[name]}")


def _annotations(cls: type[Any]) -> dict[str, str]:
    """Return the annotations of all constructor arguments of a class that this package defines."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, CheckedArguments) and "__init__" in vars(base):
            init = vars(base)["__init__"]
            if _is_of_package(base):
                found |= init.__annotations__
            else:
                # A class of a DAG file converts them to the form that its base class takes.
                code = inspect.unwrap(init).__code__
                for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                    found.pop(name, None)
    return {name: each for name, each in found.items() if name not in ("return", "kwargs")}


def _is_of_package(cls: type[Any]) -> bool:
    return cls.__module__.partition(".")[0] == _PACKAGE


@cache
def _forms(annotation: str) -> tuple[_Form, ...] | None:
    """Return the forms of an annotation, None if it allows all values."""
    forms = []
    for part in _alternatives(annotation):
        form = _literal(part) if part.startswith("Literal[") else _FORMS.get(part) or _FORMS.get(part.split("[")[0])
        if form is None:
            return None
        forms.append(form)
    return tuple(forms)


def _alternatives(annotation: str) -> list[str]:
    parts, depth = [""], 0
    for character in annotation:
        depth += (character == "[") - (character == "]")
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _literal(part: str) -> _Form:
    read = ast.literal_eval(f"({part.removeprefix('Literal[').removesuffix(']')},)")
    return _Form(" or ".join(map(repr, read)), lambda value: any(value == each for each in read), words=read)


def _is_rendered_later(value: Any) -> bool:
    if isinstance(value, str):
        return any(mark in value for mark in _TEMPLATE_MARKS)
    return is_reference(value)


def _is_identifier(value: Any, annotation: str) -> bool:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole and "str" in _alternatives(annotation) and "int" not in annotation and "float" not in annotation


def _message(name: str, forms: tuple[_Form, ...], value: Any) -> str:
    descriptions = dict.fromkeys(form.description for form in forms if form.description != "None")
    return f"{name} must be {' or '.join(descriptions)}, not {_shown(forms, value)}{_suggestion(forms, value)}"


def _shown(forms: tuple[_Form, ...], value: Any) -> str:
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, list | tuple) and any(form.allows is _is_list_of_text for form in forms):
        wrong = next(each for each in value if not _is_list_of_text([each]))
        return f"a {kind} with a value of type {type(wrong).__name__}"
    if any(form.is_private for form in forms) or not isinstance(value, str | bool | int | float | timedelta):
        return f"a value of type {kind}"
    shown = repr(value)
    return f"{shown if len(shown) <= _LONGEST else f'{shown[:_LONGEST]}...'} ({kind})"


def _suggestion(forms: tuple[_Form, ...], value: Any) -> str:
    words = [word for form in forms for word in form.words if isinstance(word, str)]
    if not words or not isinstance(value, str):
        return ""
    from difflib import get_close_matches

    near = get_close_matches(value.strip().lower(), words, n=1)
    return f". Did you mean {near[0]!r}?" if near else ""


def _place(arguments: Mapping[str, Any]) -> str:
    task_id, group, dag = (arguments.get(name) for name in ("task_id", "task_group", "dag"))
    if group is not None and isinstance(task_id, str):
        task_id = group.child_id(task_id)
    place = f"Task {task_id}" if task_id else "A task"
    return place if dag is None else f"{place} of DAG {dag.dag_id}"


def resolve_path(task: Any, path: str, *, is_folder: bool) -> Path:
    """
    Return the path of a file or folder, relative to the folder of the DAG file or the DAG's ``template_searchpath``.

    :param task: the operator.
    :param path: the path in the DAG file. Absolute paths and paths that are not found are returned unchanged.
    :param is_folder: True for a folder, False for a file.
    """
    given = Path(path)
    dag = task.get_dag()
    above = [dag.folder, *(dag.template_searchpath or ())] if dag is not None else []
    places = [Path(each) / given for each in above]
    return next((place for place in places if (place.is_dir() if is_folder else place.is_file())), given)
