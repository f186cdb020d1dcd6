"""A kind: a declared function with its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from windlass.core.meter import Meter
from windlass.core.task.downstream import Downstream, given_downstreams
from windlass.core.task.hook import Hooks
from windlass.core.task.many import ManyTerms, item_function, many_terms
from windlass.core.task.option import Options, Via
from windlass.errors import (
    BadArgument,
    BadDeclaration,
    BadInput,
    DuplicateKind,
    Unknown,
    UnknownKind,
)
from windlass.value.breaker import BreakerTerms, parse_breaker
from windlass.value.bucket import NO_LANE_TERMS, LaneTerms, lane_terms
from windlass.value.calendar.window import Window, parse_window
from windlass.value.cron import Schedule
from windlass.value.duration import Duration, parse_duration
from windlass.value.outcome import Misfit
from windlass.value.payload import Arguments, result_decoder
from windlass.value.period import Period
from windlass.value.rate import parse_rate
from windlass.value.retry import retry_policy
from windlass.value.task import (
    EVERYTHING,
    GROUP,
    KEEP_FAILED,
    RESERVED,
    Claimed,
    Terms,
    check_priority,
)

if TYPE_CHECKING:
    from windlass.core.task.isolate import IsolateTerms

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# The positional and the named arguments of a call.
Given = tuple[tuple[object, ...], Mapping[str, object]]

LONGEST_NAME = 100
MOST_LOGS = 1_000
CRON_KEY = "windlass:cron"
# The kind of nodes that are templates: every worker serves it, whatever templates it has read.
TEMPLATE = "windlass:template"


@dataclass(frozen=True, eq=False)
class Kind:
    """A declared function with its options. Times are microseconds, the rate is per second."""

    name: str
    function: Callable[..., Any]
    # Whether its runs are coroutines: the handler is one, or a child process is waited for.
    is_async: bool
    arguments: Arguments
    decode_result: Callable[[str], object]
    terms: Terms
    timeout: int | None
    concurrency: int | None
    rate: float | None
    priority: int
    max_lost: int
    finish_timeout: int
    window: Window | None = None
    breaker: BreakerTerms | None = None
    # How old its oldest due row may be before that is a problem; None: as the app says.
    late_after: int | None = None
    # Its group: kinds that operators pause together.
    group: str | None = None
    # What it promises: how long after its due time a run is done, or how long a round or a flow
    # run takes. None: nothing. The promise of a rolling kind is its period.
    within: int | None = None
    # How many run at once in the whole fleet; `concurrency` is for each process.
    total_concurrency: int | None = None
    # The systems that it calls: as given, and as the registry knows them.
    calls: tuple[Downstream | str, ...] = ()
    downstreams: tuple[Downstream, ...] = ()
    # The face that declared it, and that face's own options.
    face: str = "task"
    face_terms: Any = None
    # Whether its runs are task rows; the runs of a sweep are items of ranges.
    has_rows: bool = True
    # Whether its handler submits the task to another system; it may be called again.
    hands_over: bool = False
    # How many records of a run's log are kept; 0: none.
    logs: int = 0
    # What it says about lanes; None: nothing.
    lane: LaneTerms | None = None
    # Where its handlers run; None: in the worker.
    via: Via | None = None
    # What it says about lists; None: its handler takes one call at a time.
    many: ManyTerms | None = None
    # What it says about processes; None: its handler runs in the process of the worker.
    isolate: IsolateTerms | None = None

    @property
    def faces(self) -> set[str]:
        """The faces that serve it: the one that declared it, and the one that carries its runs."""
        return {self.face} if self.via is None else {self.face, self.via.carried_by}

    @property
    def lanes(self) -> LaneTerms:
        """How the rows of its lanes run."""
        return NO_LANE_TERMS if self.lane is None else self.lane

    def lane_of(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str | None:
        """The lane of a call, by the declaration."""
        return self.lanes.lane_of(self.name, self.arguments.signature, args, kwargs)

    def given(self, task: Claimed, *, turns: bool) -> Given:
        """What the handler gets: an item its code, a cron nothing, a task its arguments."""
        if turns:
            return ((), {}) if self.period is None else ((task.task_key,), {})
        try:
            return self.arguments.decode(task.payload)
        except BadArgument as problem:
            if task.flow_id is not None:
                # The results of other nodes are among the arguments, and will not change.
                raise
            raise Misfit(f"{problem}; it waits until the kind takes these arguments") from None

    def due_until(self, now: int) -> int:
        """The latest due time of rows that may be taken now."""
        return now if self.terms.period is None else self.terms.period.due_until(now)

    def taken_at(self, due_at: int) -> int:
        """When a row that is due at `due_at` may be taken."""
        return due_at if self.terms.period is None else self.terms.period.taken_at(due_at)

    @property
    def schedule(self) -> Schedule | None:
        return self.terms.schedule

    @property
    def period(self) -> Period | None:
        return self.terms.period


def make_kind(function: Callable[..., Any], options: Options) -> Kind:
    """The kind of `function`; an error names the wrong option."""
    name = _checked_name(function, options)
    what = f"kind {name!r}"
    max_lost = positive(options.max_lost, f"{what}: max_lost") or 1
    many = many_terms(name, options, max_lost=max_lost)
    # What one task is: with many, an item of the list.
    called = function if many is None else item_function(name, function)
    arguments = Arguments(name, called)
    if options.has_rows:
        arguments.check_storable()
    if options.schedule is not None:
        check_no_required_arguments(name, arguments)
    if options.check is not None:
        options.check(name, arguments)
    keep = optional_duration(options.keep, f"{what}: keep", zero=True)
    keep_failed = optional_duration(options.keep_failed, f"{what}: keep_failed")
    isolate = _isolate(name, function, options)
    concurrency = positive(options.concurrency, f"{what}: concurrency")
    if isolate is not None:
        concurrency = concurrency or isolate.at_once
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
        is_async=isolate is not None or inspect.iscoroutinefunction(function),
        arguments=arguments,
        decode_result=result_decoder(called),
        terms=terms,
        timeout=optional_duration(options.timeout, f"{what}: timeout"),
        concurrency=concurrency,
        rate=_optional(parse_rate, options.rate, f"{what}: rate"),
        priority=check_priority(name, options.priority),
        max_lost=max_lost,
        finish_timeout=parse_duration(options.finish_timeout, what=f"{what}: finish_timeout"),
        window=_optional(parse_window, options.window, f"{what}: window"),
        breaker=_optional(parse_breaker, options.breaker, f"{what}: breaker"),
        late_after=optional_duration(options.late_after, f"{what}: late_after"),
        group=check_group(options.group, f"{what}: group"),
        within=optional_duration(options.within, f"{what}: within"),
        total_concurrency=positive(options.total_concurrency, f"{what}: total_concurrency"),
        calls=given_downstreams(name, options.downstream),
        face=options.face,
        face_terms=options.face_terms,
        has_rows=options.has_rows,
        hands_over=options.hands_over,
        logs=_logs(name, options.logs),
        lane=_lane(name, arguments, options),
        via=_via(name, options.via),
        many=many,
        isolate=isolate,
    )


def _checked_name(function: Callable[..., Any], options: Options) -> str:
    """The name of a kind whose function can run, and be found again."""
    if not callable(function) or not hasattr(function, "__name__"):
        raise BadDeclaration(f"{function!r} is not a function; declare a def or an async def")
    name = options.name if options.name is not None else function.__name__
    check_runs(name, function)
    if name == "<lambda>":
        raise BadDeclaration(
            "a lambda has no name by which other processes find it; declare a def, or give it name="
        )
    check_kind_name(name)
    return name


def check_runs(name: str, function: Callable[..., Any]) -> None:
    """Raise BadDeclaration if a call would not run the function."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadDeclaration(
            f"kind {name!r}: its function has a yield, so a call would only make a generator and "
            "run nothing; return a list, or enqueue a task for each item"
        )


@dataclass
class Registry:
    """The kinds of one app. Handlers come only from here."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    # Flows of templates that were read; workers run them as nodes of the kind TEMPLATE.
    templates: dict[str, Kind] = field(default_factory=dict)
    # Internal kinds that every worker serves.
    own: dict[str, Kind] = field(default_factory=dict)
    downstreams: dict[str, Downstream] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=Hooks)
    # Counts for metrics; None if nobody asks for them.
    meter: Meter | None = None

    def add(self, kind: Kind) -> Kind:
        """Add a kind, and return it with its downstreams."""
        _check_is_free(kind.name)
        if kind.name in self.kinds:
            raise DuplicateKind(kind.name)
        if kind.name in self.downstreams:
            raise BadDeclaration(
                f"kind {kind.name!r}: a downstream has this name; give one of them another name"
            )
        if kind.calls:
            called = tuple(self._downstream(kind.name, given) for given in kind.calls)
            # What a downstream answers over HTTP says how much it can bear.
            terms = replace(kind.terms, heeds_http=True)
            kind = replace(kind, downstreams=called, terms=terms)
        self.kinds[kind.name] = kind
        return kind

    def add_downstream(self, downstream: Downstream) -> Downstream:
        name = downstream.name
        if name in self.downstreams or name in self.kinds:
            what = "downstream" if name in self.downstreams else "kind"
            raise BadDeclaration(
                f"downstream {name!r}: a {what} has this name already; give another name"
            )
        self.downstreams[name] = downstream
        return downstream

    def limited(self, name: str) -> Kind | Downstream:
        """The kind or the downstream of that name: what an operator can pause."""
        found = self.downstreams.get(name)
        if found is not None:
            return found
        if name not in self.kinds and self.downstreams:
            raise UnknownKind(name, [*self.kinds, *self.downstreams])
        return self.get(name)

    def _downstream(self, kind: str, given: Downstream | str) -> Downstream:
        name = given if isinstance(given, str) else given.name
        found = self.downstreams.get(name)
        if found is None or (found is not given and not isinstance(given, str)):
            known = ", ".join(sorted(self.downstreams)) or "none"
            raise BadDeclaration(
                f"kind {kind!r}: {name!r} is not a downstream of this app; declare it first with "
                f"app.downstream({name!r}, ...); known: {known}"
            )
        return found

    def of_face(self, name: str, face: str, *, what: str) -> Kind:
        """The kind of that name; if it has another face, the error says that it is not `what`."""
        kind = self.get(name)
        if kind.face != face:
            names = sorted(each.name for each in self.kinds.values() if each.face == face)
            known = ", ".join(names) or "none"
            raise Unknown(f"kind {name!r} is not {what}; {face} kinds: {known}")
        return kind

    def get(self, name: str) -> Kind:
        found = self.kinds.get(name) or self.templates.get(name) or self.own.get(name)
        if found is None:
            raise UnknownKind(name, list(self.kinds))
        return found

    @property
    def groups(self) -> dict[str, list[str]]:
        """The groups, each with the names of its kinds; both sorted."""
        found: dict[str, list[str]] = {}
        for name, kind in sorted(self.kinds.items()):
            if kind.group is not None:
                found.setdefault(kind.group, []).append(name)
        return dict(sorted(found.items()))

    def chosen(self, names: list[str] | None) -> dict[str, Kind]:
        """The named kinds, or all of them."""
        if not names:
            return {**self.kinds, **self.own} if self.kinds else {}
        return {name: self.get(name) for name in names}


class Declared(Protocol):
    """The handle of a declared kind: a task, a rolling kind, a sweep, a flow."""

    @property
    def kind(self) -> str: ...


def names_of(kinds: Iterable[str | Declared], what: str) -> list[str]:
    """The names of kinds that are given by name or as declared."""
    given = None if isinstance(kinds, str) else list(kinds)
    if not given:
        raise BadInput(f"{what}(kinds={kinds!r}): give a list with at least one kind")
    names = [each if isinstance(each, str) else getattr(each, "kind", None) for each in given]
    for each, name in zip(given, names, strict=True):
        if not isinstance(name, str):
            raise BadInput(f"{what}(kinds=...): {each!r} is neither a declared kind nor a name")
    return [name for name in names if name is not None]


def check_kind_name(name: object, what: str = "kind") -> None:
    if not isinstance(name, str) or not name.strip() or name != name.strip():
        raise BadDeclaration(
            f"a {what} cannot be named {name!r}; give a name without spaces around it"
        )
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise BadDeclaration(
            f"{what} name {name[:40]!r}... is not valid; at most {LONGEST_NAME} printable "
            "characters"
        )


def _check_is_free(name: str) -> None:
    """Refuse names that the switches of everything and of groups have, and our own."""
    taken = (GROUP, RESERVED)
    if name == EVERYTHING or name.startswith(taken):
        raise BadDeclaration(
            f"a kind cannot be named {name!r}; {EVERYTHING!r} and names that begin with "
            f"{GROUP!r} or {RESERVED!r} are taken"
        )


def check_group(given: object, what: str) -> str | None:
    """The name of a group, or None."""
    if given is None:
        return None
    longest = LONGEST_NAME - len(GROUP)
    if (
        not isinstance(given, str)
        or not given
        or given != given.strip()
        or not given.isprintable()
        or len(given) > longest
    ):
        shown = f"{given[:40]!r}..." if isinstance(given, str) and len(given) > 40 else f"{given!r}"
        raise BadDeclaration(
            f"{what}={shown} is not the name of a group; give at most {longest} printable "
            "characters without spaces around them"
        )
    return given


def check_may_have_lanes(kind: Kind) -> None:
    """Refuse a lane for a kind whose rows do not run once and then end."""
    if kind.schedule is not None:
        why = "a cron has one row, which never runs beside itself"
    elif kind.hands_over:
        why = "another system runs its tasks, so a lane here cannot hold them"
    elif kind.face != "task":
        why = f"only tasks have lanes, and it is a {kind.face}"
    else:
        return
    raise BadInput(f"kind {kind.name!r} cannot have lanes: {why}; leave out lane")


def check_no_required_arguments(name: str, arguments: Arguments) -> None:
    """Refuse a handler that a schedule cannot call."""
    for parameter in arguments.signature.parameters.values():
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            raise BadDeclaration(
                f"cron {name!r}: parameter {parameter.name!r} has no default, and a cron is called "
                "without arguments"
            )


def optional_duration(given: Duration | None, what: str, *, zero: bool = False) -> int | None:
    """A duration, or None."""
    return None if given is None else parse_duration(given, what=what, zero=zero)


def _lane(name: str, arguments: Arguments, options: Options) -> LaneTerms | None:
    return lane_terms(
        name,
        arguments.signature,
        of=options.lane,
        per_lane=options.per_lane,
        on_failure=options.on_failure,
        fair=options.fair,
    )


def _via(name: str, given: object) -> Via | None:
    if given is None or isinstance(given, Via):
        return given
    raise BadDeclaration(
        f"kind {name!r}: via= is a {type(given).__name__}, which does not carry tasks; give a "
        "queue, such as "
        'via=Queue("amqp://user:password@host", "visits")'
    )


def _isolate(name: str, function: Callable[..., Any], options: Options) -> IsolateTerms | None:
    if options.isolate is None and options.memory is None:
        return None
    # Imported here: most programs have no such kind.
    from windlass.core.task.isolate import isolate_terms

    return isolate_terms(name, function, options)


def _logs(name: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MOST_LOGS:
        raise BadDeclaration(
            f"kind {name!r}: logs={given!r} is not a number of records from 0 to {MOST_LOGS:,}"
        )
    return given


def _optional(parse: Callable[..., T], given: object, what: str) -> T | None:
    return None if given is None else parse(given, what=what)


def positive(given: object, what: str) -> int | None:
    """A number from 1 on, or None."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise BadDeclaration(f"{what}={given!r} is not a number from 1 on")
    return given
