"""Payloads: the arguments of a handler as JSON, checked against its annotations.

A payload is one JSON object, parameter name to value. Enqueuing checks it by decoding it exactly as
a worker will, so the handler of an accepted task can be called.

The trace context of the caller is one more member at its end. Code that does not know it reads past
it: a decoder of arguments ignores members that are not parameters. A handler with `**kwargs` would
get it from a worker of an older release, so payloads of such a kind do not have it.

Models of pydantic, which msgspec does not know, are written and read by their own JSON. pydantic
stays optional.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, TypeVar, cast

import msgspec

from windlass.errors import BadArgument, BadDeclaration, NotSerializable, PayloadTooLarge

E = TypeVar("E", bound=BadArgument)

LARGEST_PAYLOAD = 256 * 1024
LARGEST_RESULT = 64 * 1024
TRACE = "windlass:trace"
# In the context of an enqueue of many tasks: each run is a trace of its own, and only linked to it.
MANY = "windlass-many"

# What a context is carried as: the names of headers, and their values.
Carrier = dict[str, str]


# How a model is written and read: the names of its aliases, so that it can be read again.
DUMP = {"mode": "json", "by_alias": True, "round_trip": True}


PLAIN = (Any, object, str, int, float, bool, None, bytes, dict, list)


def _is_model(kind: object) -> bool:
    """Whether it is a class of pydantic's models, without importing pydantic."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__")


def _write_model(value: object) -> object:
    if _is_model(type(value)) and hasattr(value, "model_dump"):
        return cast(Any, value).model_dump(**DUMP)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _read_model(kind: type, found: object) -> object:
    if not _is_model(kind):
        if isinstance(found, kind):
            return found
        raise TypeError(f"objects of type {kind.__name__} cannot be read from JSON")
    try:
        # As JSON: a strict model takes a date as text there, and nowhere else.
        return cast(Any, kind).model_validate_json(msgspec.json.encode(found))
    except ValueError as problem:
        raise ValueError(f"Expected {kind.__name__} ({_first_error(problem)})") from None


def _first_error(problem: ValueError) -> str:
    """What pydantic says, without the value: it may be long."""
    errors: Callable[[], list[dict[str, Any]]] | None = getattr(problem, "errors", None)
    found = errors()[0] if errors is not None else {"msg": str(problem), "loc": ()}
    path = ".".join(map(str, found["loc"]))
    return f"{path}: {found['msg']}" if path else str(found["msg"])


_encode = msgspec.json.Encoder(enc_hook=_write_model).encode


def decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Reads JSON as this type."""
    return msgspec.json.Decoder(wanted, dec_hook=_read_model)


def _convert(value: object, wanted: Any) -> Any:
    """A value of JSON as this type."""
    return msgspec.convert(value, wanted, str_keys=True, dec_hook=_read_model)


def _unreadable(wanted: Any) -> str | None:
    """The name of a class in this type that cannot be read from JSON; None if all can."""
    if any(wanted is plain for plain in PLAIN):
        return None
    # Imported here: most programs only have plain types.
    from msgspec.inspect import type_info

    found = (each for each in _customs(type_info(wanted), set()) if not _is_model(each))
    return next((each.__name__ for each in found), None)


def _customs(info: Any, seen: set[int]) -> Iterator[type]:
    """The classes in a type that msgspec does not know itself."""
    from msgspec import inspect

    if isinstance(info, inspect.CustomType):
        # An `object` may be anything that JSON has.
        if info.cls is not object:
            yield info.cls
        return
    if not isinstance(info, inspect.Type | inspect.Field) or id(info) in seen:
        return
    seen.add(id(info))
    for name in info.__struct_fields__:
        part = getattr(info, name)
        for each in part if isinstance(part, tuple) else (part,):
            yield from _customs(each, seen)


class Arguments:
    """The parameters of one handler: binds, checks, encodes and decodes its arguments."""

    def __init__(self, kind: str, function: Callable[..., object]) -> None:
        self.kind = kind
        self.signature = inspect.signature(function)
        self._types = _annotations(kind, function, self.signature)
        parameters = self.signature.parameters.values()
        self._positional_only = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
        self._names = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        self._names -= set(self._positional_only)
        self._required = {p.name for p in parameters if _is_required(p)}
        self._takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        if self._takes_any and self._positional_only:
            raise BadDeclaration(
                f"kind {kind!r}: positional-only parameters and **kwargs may have the same name; "
                "drop the / or the **kwargs"
            )
        self._decode = self._make_decoder().decode

    @property
    def types(self) -> Mapping[str, Any]:
        """The annotation of each parameter."""
        return self._types

    def check_storable(self) -> None:
        """Raise BadDeclaration if a parameter can never be stored: its type, or its default."""
        for name, parameter in self.signature.parameters.items():
            wanted = self._types.get(name, Any)
            if (custom := _unreadable(wanted)) is not None:
                raise BadDeclaration(
                    f"kind {self.kind!r}: parameter {name!r} is a {custom}, which cannot be stored "
                    "as JSON; take plain data or a key, and make the object in the handler"
                )
            if parameter.default is parameter.empty:
                continue
            try:
                _encode(parameter.default)
            except (TypeError, ValueError, OverflowError, RecursionError) as problem:
                raise BadDeclaration(
                    f"kind {self.kind!r}: the default of {name!r} is "
                    f"{_shown(parameter.default)}, which cannot be written as JSON ({problem}); "
                    "take plain data, and make the object in the handler or at the module's top"
                ) from None

    def encode(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        largest: int,
        trace: Carrier | None = None,
    ) -> str:
        """The payload for these arguments, or an error that names the wrong one.

        `trace` is the context of the caller, which travels with them.
        """
        bound = self._bind(args, kwargs)
        try:
            encoded = _encode(bound)
        except (TypeError, ValueError, OverflowError, RecursionError) as problem:
            raise self._unserializable(bound, problem) from problem
        if b"null" in encoded:
            self._check_finite(bound)
        if len(encoded) > largest:
            raise PayloadTooLarge(
                f"kind {self.kind!r}: the arguments are {len(encoded):,} bytes as JSON, over the "
                f"limit of {largest:,}; store the data and enqueue its key, or raise max_payload",
                kind=self.kind,
            )
        try:
            self._read(encoded)
        except msgspec.ValidationError as problem:
            raise self._misfit(bound, str(problem)) from problem
        return encoded.decode() if trace is None else self.carry(encoded.decode(), trace)

    def carry(self, payload: str, trace: Carrier | None) -> str:
        """The payload with the context of its caller, unless the handler has `**kwargs`."""
        return payload if self._takes_any else with_trace(payload, trace)

    def check_open(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        is_open: Callable[[object], bool],
    ) -> dict[str, object]:
        """The arguments by name; all but those that are still open are checked."""
        bound = self._bind(args, kwargs)
        for name, value in bound.items():
            if is_open(value):
                continue
            try:
                encoded = encode_value(value)
                decoder(self._types.get(name, Any)).decode(encoded)
            except msgspec.ValidationError as problem:
                expected = str(problem).partition(" - at `$")[0]
                raise self._misfit(bound, f"{expected} - at `$.{name}`") from problem
            except (TypeError, ValueError, OverflowError, RecursionError) as problem:
                raise self._unserializable(bound, problem) from problem
        return bound

    def decode(self, payload: str) -> tuple[tuple[object, ...], dict[str, Any]]:
        """The positional and keyword arguments to call the handler with."""
        try:
            kwargs = self._read(payload)
        except msgspec.ValidationError as problem:
            raise self._misfit(msgspec.json.decode(payload), str(problem)) from problem
        if self._positional_only:
            args = tuple(kwargs.pop(name) for name in self._positional_only if name in kwargs)
            return args, kwargs
        return (), kwargs

    def _read(self, payload: str | bytes) -> dict[str, Any]:
        kwargs = self._decode(payload)
        if not self._takes_any:
            return kwargs
        kwargs.pop(TRACE, None)
        return self._convert_known(kwargs)

    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if not args and self._required <= kwargs.keys() <= self._names:
            return dict(kwargs)
        try:
            bound = self.signature.bind(*args, **kwargs).arguments
        except TypeError as problem:
            raise BadArgument(
                f"kind {self.kind!r}: {problem}; its parameters are {self.signature}",
                kind=self.kind,
            ) from None
        if self._takes_any:
            for name, parameter in self.signature.parameters.items():
                if parameter.kind is parameter.VAR_KEYWORD:
                    bound |= bound.pop(name, {})
            if TRACE in bound:
                raise BadArgument(
                    f"kind {self.kind!r}: the name {TRACE!r} is reserved; use another one",
                    kind=self.kind,
                    argument=TRACE,
                )
        return bound

    def _make_decoder(self) -> msgspec.json.Decoder[dict[str, Any]]:
        if self._takes_any:
            return decoder(dict[str, Any])
        fields: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            wanted = self._types[name]
            fields[name] = wanted if _is_required(parameter) else NotRequired[wanted]
        # Made at run time, where a type checker cannot follow.
        make_shape: Any = TypedDict
        return decoder(make_shape(self.kind, fields))

    def _convert_known(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        missing = self._required - kwargs.keys()
        if missing:
            raise msgspec.ValidationError(f"Object missing required field `{min(missing)}`")
        known = {}
        for name, value in kwargs.items():
            wanted = self._types.get(name, Any)
            try:
                known[name] = _convert(value, wanted)
            except msgspec.ValidationError as problem:
                expected, _, path = str(problem).partition(" - at `$")
                raise msgspec.ValidationError(
                    f"{expected} - at `$.{name}{path or '`'}"
                ) from problem
        return known

    def _misfit(self, bound: Mapping[str, object], problem: str) -> BadArgument:
        expected, _, path = problem.partition(" - at `$")
        argument = path.strip("`.").split(".")[0].split("[")[0]
        if argument not in bound:
            return BadArgument(f"kind {self.kind!r}: {problem}", kind=self.kind)
        wanted = expected.removeprefix("Expected ").split(", got")[0].replace("`", "")
        inside = f" at {path.strip('`.')}" if path.strip("`.") != argument else ""
        why = f", expected {wanted}{inside}"
        return self._bad(BadArgument, argument, bound[argument], why)

    def _check_finite(self, bound: Mapping[str, object]) -> None:
        for name, value in bound.items():
            if not _is_finite(value):
                why = "; JSON has no infinite numbers and no NaN, give None or a string"
                raise self._bad(NotSerializable, name, value, why)

    def _unserializable(self, bound: Mapping[str, object], problem: Exception) -> NotSerializable:
        for name, value in bound.items():
            try:
                _encode(value)
            except (TypeError, ValueError, OverflowError, RecursionError) as found:
                why = f", which cannot be written as JSON ({found}); enqueue plain data or a key"
                return self._bad(NotSerializable, name, value, why)
        return NotSerializable(f"kind {self.kind!r}: {problem}", kind=self.kind)

    def _bad(self, error: type[E], argument: str, given: object, why: str) -> E:
        text = f"kind {self.kind!r}: argument {argument!r} is {_shown(given)}{why}"
        return error(text, kind=self.kind, argument=argument, given=given)


class _Carried(msgspec.Struct):
    trace: Carrier | None = msgspec.field(default=None, name=TRACE)


_carried = msgspec.json.Decoder(_Carried).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def with_trace(payload: str, carrier: Carrier | None) -> str:
    """The payload with the context of its caller; as it is without one."""
    if not carrier:
        return payload
    comma = "" if payload == "{}" else ","
    return f'{payload[:-1]}{comma}"{TRACE}":{_encode(carrier).decode()}}}'


def trace_of(payload: str) -> Carrier | None:
    """The context of the caller; None without one, or if it cannot be read."""
    if TRACE not in payload:
        return None
    try:
        return _carried(payload).trace
    except (msgspec.DecodeError, ValueError):
        return None


def without_trace(payload: str) -> str:
    """The payload with nothing but the arguments, which stay as they are written."""
    if TRACE not in payload:
        return payload
    try:
        members = _members(payload)
    except (msgspec.DecodeError, ValueError):
        return payload
    if members.pop(TRACE, None) is None:
        return payload
    return _encode(members).decode()


def encode_result(result: object) -> str | None:
    """The JSON of what a handler returned; None for None. Raises ValueError or TypeError."""
    if result is None:
        return None
    encoded = encode_value(result)
    if len(encoded) > LARGEST_RESULT:
        raise ValueError(
            f"the result is {len(encoded):,} bytes as JSON, over the limit of {LARGEST_RESULT:,}; "
            "store it and return its key"
        )
    return encoded.decode()


def encode_value(value: object) -> bytes:
    """The JSON of any value. Raises ValueError or TypeError if it cannot be JSON."""
    encoded = _encode(value)
    if b"null" in encoded and not _is_finite(value):
        raise ValueError("it contains an infinite number or NaN, which JSON does not have")
    return encoded


def result_decoder(function: Callable[..., object]) -> Callable[[str], object]:
    """A function that decodes a stored result as the handler's annotated return type, if any."""
    plain = msgspec.json.Decoder().decode
    try:
        as_declared = decoder(typing.get_type_hints(function).get("return", Any)).decode
    except (TypeError, NameError, AttributeError, SyntaxError):
        return plain

    def decode(result: str) -> object:
        try:
            return as_declared(result)
        except msgspec.ValidationError:
            # The handler returned another type than its annotation says.
            return plain(result)

    return decode


def _annotations(
    kind: str, function: Callable[..., object], signature: inspect.Signature
) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as problem:
        raise BadDeclaration(
            f"kind {kind!r}: its annotations cannot be read ({problem}); "
            "import the types where the function is declared"
        ) from problem
    found: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise BadDeclaration(
                f"kind {kind!r}: *{name} cannot be stored by name; take a list instead"
            )
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        found[name] = hints.get(name, Any)
        try:
            decoder(found[name])
        except TypeError as problem:
            raise BadDeclaration(
                f"kind {kind!r}: parameter {name!r} has a type that JSON cannot represent "
                f"({problem}); use plain types, a dataclass or a msgspec.Struct"
            ) from problem
    return found


def _is_finite(value: object) -> bool:
    """Whether `value` contains no NaN and no infinity, which JSON would write as null."""
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(_is_finite(part) for part in value.values())
        case list() | tuple() | set() | frozenset():
            return all(_is_finite(part) for part in value)
    return True


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


@dataclass(frozen=True)
class ArgumentView:
    """An argument of a handler."""

    name: str
    type: str
    required: bool


def argument_views(signature: inspect.Signature) -> list[ArgumentView]:
    """The arguments that a handler takes."""
    return [
        ArgumentView(name, _type(parameter.annotation), parameter.default is parameter.empty)
        for name, parameter in signature.parameters.items()
    ]


def _type(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return "any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
