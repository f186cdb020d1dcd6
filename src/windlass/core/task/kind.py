"""A kind: a declared function with everything that its options say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windlass.errors import BadArgument, BadDeclaration, DuplicateKind, Unknown, UnknownKind
from windlass.external.model import ExternalTerms
from windlass.source.contract import SweepSource
from windlass.sweep.model import SweepTerms, check_order, declared_ranges
from windlass.value.breaker import Terms as BreakerTerms
from windlass.value.breaker import parse_breaker
from windlass.value.cron import Schedule
from windlass.value.duration import Duration, parse_duration
from windlass.value.outcome import KEEP_FAILED, Terms
from windlass.value.payload import Arguments, result_decoder
from windlass.value.period import Period, parse_tick
from windlass.value.rate import parse_rate
from windlass.value.retry import Backoff, Retries, retry_policy
from windlass.value.task import Claimed, check_priority
from windlass.value.window import Window, parse_window

LONGEST_NAME = 100
CRON_KEY = "windlass:cron"
# The kind of nodes that are templates: every worker serves it, whichever templates it has read.
TEMPLATE = "windlass:template"


@dataclass(frozen=True, eq=False)
class Kind:
    """What is known of a kind. Times are microseconds, the rate is per second."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    arguments: Arguments
    decode_result: Callable[[str], object]
    terms: Terms
    timeout: int | None
    concurrency: int | None
    rate: float | None
    priority: int
    max_lost: int
    window: Window | None = None
    breaker: BreakerTerms | None = None
    sweep: SweepTerms | None = None
    source: SweepSource | None = None
    # What draws the nodes of a flow.
    draw: Callable[..., Any] | None = None
    # The version of a flow that is a template.
    version: int | None = None
    # The external system that executes it.
    system: ExternalTerms | None = None

    def call(self, task: Claimed, *, turns: bool) -> Any:
        """Call the handler with its stored arguments; an item with its code, a cron with none."""
        if turns:
            return self.function() if self.period is None else self.function(task.task_key)
        args, kwargs = self.arguments.decode(task.payload)
        return self.function(*args, **kwargs)

    def due_until(self, now: int) -> int:
        """What is due by then may be taken now."""
        return now if self.terms.period is None else self.terms.period.due_until(now)

    def taken_at(self, due_at: int) -> int:
        """The first moment at which a row that is due then may be taken."""
        return due_at if self.terms.period is None else self.terms.period.taken_at(due_at)

    @property
    def hands_over(self) -> bool:
        """Whether its handler hands the task to another system, and may be called again for it."""
        return self.system is not None

    @property
    def schedule(self) -> Schedule | None:
        return self.terms.schedule

    @property
    def period(self) -> Period | None:
        return self.terms.period


@dataclass(frozen=True)
class Options:
    """The options of a declaration, as the user wrote them."""

    name: str | None = None
    retries: Retries | None = None
    backoff: Backoff = "2s"
    timeout: Duration | None = None
    concurrency: int | None = None
    rate: str | None = None
    priority: int = 0
    keep: Duration | None = None
    keep_failed: Duration | None = None
    max_lost: int = 3
    window: str | None = None
    breaker: str | None = None
    schedule: Schedule | None = None
    period: Period | None = None
    sweep: SweepTerms | None = None
    source: SweepSource | None = None
    draw: Callable[..., Any] | None = None
    version: int | None = None
    system: ExternalTerms | None = None


def make_kind(function: Callable[..., Any], options: Options) -> Kind:
    """The kind that `function` becomes, or an error that names the option that is wrong."""
    if not callable(function) or not hasattr(function, "__name__"):
        raise BadDeclaration(f"{function!r} is not a function; declare a def or an async def")
    name = options.name if options.name is not None else function.__name__
    check_kind_name(name)
    what = f"kind {name!r}"
    arguments = Arguments(name, function)
    if options.schedule is not None:
        check_no_required_arguments(name, arguments)
    if options.period is not None:
        _check_takes_a_code(name, arguments)
    if options.sweep is not None:
        _check_takes_a_row(name, arguments)
    keep = _duration(options.keep, f"{what}: keep", zero=True)
    keep_failed = _duration(options.keep_failed, f"{what}: keep_failed")
    terms = Terms(
        retry=retry_policy(name, options.retries, options.backoff),
        keep=keep,
        keep_failed=keep_failed or max(KEEP_FAILED, keep or 0),
        schedule=options.schedule,
        period=options.period,
        priority=options.priority,
    )
    return Kind(
        name=name,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        arguments=arguments,
        decode_result=result_decoder(function),
        terms=terms,
        timeout=_duration(options.timeout, f"{what}: timeout"),
        concurrency=_positive(options.concurrency, f"{what}: concurrency"),
        rate=None if options.rate is None else parse_rate(options.rate, what=f"{what}: rate"),
        priority=check_priority(name, options.priority),
        max_lost=_positive(options.max_lost, f"{what}: max_lost") or 1,
        window=None
        if options.window is None
        else parse_window(options.window, what=f"{what}: window"),
        breaker=None
        if options.breaker is None
        else parse_breaker(options.breaker, what=f"{what}: breaker"),
        sweep=options.sweep,
        source=options.source,
        draw=options.draw,
        version=options.version,
        system=options.system,
    )


def make_period(
    every: Duration, *, batch: int, tick: Duration | None, retry_after: Duration | None
) -> Period:
    """How often items are visited, or an error that names the option that is wrong."""
    return Period(
        every=parse_duration(every, what="rolling: every"),
        retry_after=_duration(retry_after, "rolling: retry_after", zero=True),
        tick=None if tick is None else parse_tick(tick, what="rolling: tick"),
        batch=_positive(batch, "rolling: batch") or 1,
    )


def make_sweep(
    source: object,
    *,
    ranges: int,
    redo: Duration | None,
    batch: int,
    order: str,
    many: bool,
    key_only: bool,
    steal: bool,
) -> SweepTerms:
    """How a source is swept, or an error that names the option that is wrong."""
    if not isinstance(source, SweepSource):
        raise BadDeclaration(
            f"sweep: {source!r} is not a source; give a Table, Keys, Lines, Csv or Pages, or an "
            "object that has bounds, middle and read"
        )
    return SweepTerms(
        ranges=declared_ranges(ranges),
        redo=_duration(redo, "sweep: redo", zero=True),
        batch=_positive(batch, "sweep: batch") or 1,
        order=check_order(order),
        many=bool(many),
        key_only=bool(key_only),
        steal=bool(steal),
    )


@dataclass
class Registry:
    """The kinds of one app. Handlers come from here and from nowhere else."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    # Flows that were read from templates; workers run them as nodes of the kind TEMPLATE.
    templates: dict[str, Kind] = field(default_factory=dict)
    # What every worker serves beside the kinds.
    own: dict[str, Kind] = field(default_factory=dict)

    def add(self, kind: Kind) -> None:
        known = self.kinds.get(kind.name)
        if known is not None:
            raise DuplicateKind(kind.name)
        self.kinds[kind.name] = kind

    def rolling(self, name: str) -> Kind:
        """The rolling kind of that name."""
        kind = self.get(name)
        if kind.period is None:
            raise Unknown(f"kind {name!r} is not rolling")
        return kind

    def sweep(self, name: str) -> Kind:
        """The sweep of that name."""
        kind = self.get(name)
        if kind.sweep is None:
            raise Unknown(f"kind {name!r} is not a sweep")
        return kind

    def get(self, name: str) -> Kind:
        found = self.kinds.get(name) or self.templates.get(name) or self.own.get(name)
        if found is None:
            raise UnknownKind(name, list(self.kinds))
        return found

    def chosen(self, names: list[str] | None) -> dict[str, Kind]:
        """The named kinds, or all of them."""
        if not names:
            return {**self.kinds, **self.own} if self.kinds else {}
        return {name: self.get(name) for name in names}


def check_kind_name(name: object) -> None:
    """Refuse what no kind can be named."""
    if not isinstance(name, str) or not name.strip() or name != name.strip():
        raise BadDeclaration(f"a kind cannot be named {name!r}; give it a plain name")
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise BadDeclaration(
            f"kind name {name[:40]!r}... is not usable; at most {LONGEST_NAME} printable characters"
        )


def check_no_required_arguments(name: str, arguments: Arguments) -> None:
    """Refuse what a schedule cannot call."""
    for parameter in arguments.signature.parameters.values():
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            raise BadDeclaration(
                f"cron {name!r}: parameter {parameter.name!r} has no default, and a cron is called "
                "without arguments"
            )


def _check_takes_a_code(name: str, arguments: Arguments) -> None:
    try:
        arguments.encode(("code",), {}, largest=1_000)
    except BadArgument as problem:
        raise BadDeclaration(
            f"rolling {name!r}: its handler is called with one argument, the code of an item as "
            f"text; write def {name}(code: str)"
        ) from problem


def _check_takes_a_row(name: str, arguments: Arguments) -> None:
    try:
        arguments.signature.bind(object())
    except TypeError as problem:
        raise BadDeclaration(
            f"sweep {name!r}: its handler is called with one argument, a row of the source; "
            f"write def {name}(row)"
        ) from problem


def _duration(given: Duration | None, what: str, *, zero: bool = False) -> int | None:
    return None if given is None else parse_duration(given, what=what, zero=zero)


def _positive(given: object, what: str) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise BadDeclaration(f"{what}={given!r} is not a number from 1 on")
    return given
