"""How payloads become Python values, and Python values become payloads and results."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import types
import typing
from typing import Any, Callable, Union

from .exceptions import Dead

Payload = Union[bytes, bytearray]
Decoder = Callable[[Payload], object]

#: The annotations that are not JSON.
AS_SENT = (str, bytes, bytearray, memoryview)

_parse = json.JSONDecoder().raw_decode


def _default(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"a value of type {type(value).__name__} is neither text, bytes nor JSON")


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default).encode


def encoded(value: object) -> bytes | memoryview | None:
    """The bytes of a result, a payload or a checkpoint.

    None is nothing, `str` is text, everything with the buffer protocol (`bytes`, `memoryview`, arrays) is bytes, and
    everything else is JSON.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, (dict, list, int, float, tuple)):
        try:
            view = memoryview(value)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            if view.ndim > 0:
                return view.cast("B") if view.c_contiguous and view.nbytes > 0 else view.tobytes()
            value = view.tolist()  # a NumPy scalar is a number
    return _encode(value).encode()


def decoder(function: Callable[..., object], parameter: inspect.Parameter) -> Decoder:
    """Turns a payload into the first argument of a handler, by the parameter's annotation."""
    hint = parameter.annotation
    while isinstance(hint, str):
        hint = _resolved(hint, function)
    expected = typing.get_origin(hint) or hint
    # `bytes | None` is of another type than `Union[bytes, None]` before Python 3.14.
    is_union = expected in (Union, getattr(types, "UnionType", Union))
    if is_union and any(form in typing.get_args(hint) for form in AS_SENT):
        raise TypeError(
            f"the parameter {parameter.name} of {getattr(function, '__qualname__', function)} is {hint}; it must be "
            "str, bytes, bytearray or memoryview alone, a dataclass, or a type of JSON"
        )
    if expected is str:
        return _text
    if expected in (bytes, bytearray):
        return typing.cast(Decoder, expected)
    if expected is memoryview:
        return _view
    if dataclasses.is_dataclass(expected) and isinstance(expected, type):
        return _fields_of(expected)
    if expected in (dict, list, int, float, bool):
        return _json_of(expected)
    return _json


def _resolved(hint: str, function: Any) -> Any:
    """What an annotation names that is text. Only this one: the others may name what is imported for type checkers."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not inspect.isroutine(function):
        function = inspect.unwrap(type(function).__call__)
    return eval(hint, getattr(function, "__globals__", {}))


def _text(payload: Payload) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise Dead(f"the payload is not text: {error}") from None


def _view(payload: Payload) -> memoryview:
    return memoryview(payload).toreadonly()


def _json(payload: Payload) -> Any:
    try:
        # `json.loads` would take twice as long for a small payload.
        text = payload.decode().strip(" \t\n\r")
        value, end = _parse(text)
        if end < len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        return value
    except (ValueError, RecursionError) as error:
        raise Dead(f"the payload is not JSON: {error}") from None


def _json_of(expected: type) -> Decoder:
    allowed = (int, float) if expected is float else (expected,)

    def decode(payload: Payload) -> object:
        value = _json(payload)
        # A bool is an int in Python, but not in JSON.
        if not isinstance(value, allowed) or (isinstance(value, bool) and expected is not bool):
            raise Dead(f"the payload is JSON of type {type(value).__name__}, not {expected.__name__}")
        return value

    return decode


def _fields_of(expected: type) -> Decoder:
    decode_object = _json_of(dict)

    def decode(payload: Payload) -> object:
        fields = typing.cast("dict[str, Any]", decode_object(payload))
        try:
            return expected(**fields)
        except (TypeError, ValueError) as error:
            raise Dead(f"the payload does not fit {expected.__name__}: {error}") from None

    return decode
