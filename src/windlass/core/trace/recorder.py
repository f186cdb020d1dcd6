"""Records what is enqueued and run as spans and metrics, with the providers of the program.

An enqueue is a producer span, whose context travels in the rows. A run is a consumer span that is
linked to it, and its child if the enqueue had only that task: the runs of many tasks would make one
trace of any length. A flow run has no process that could hold a span open, so the span of its start
stands for it, and its nodes are children of that one. Items of a sweep have a span for each page.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from threading import Lock
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanKind,
    Tracer,
    TracerProvider,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)

from windlass.core.trace import name as names
from windlass.core.trace.fence import FENCE
from windlass.core.trace.metric import Meters
from windlass.core.trace.span import Attributes, Block
from windlass.errors import Signal
from windlass.value.outcome import (
    Cancelled,
    Expanded,
    Failed,
    Outcome,
    Retried,
    Snoozed,
    Submitted,
    Succeeded,
)
from windlass.value.payload import MANY, Carrier, trace_of
from windlass.value.task import Claimed

# A larger context travels without its baggage.
LARGEST_CARRIER = 4_096
TRACE_HEADERS = ("traceparent", "tracestate")
OUTCOMES: dict[type[Any], str] = {
    Succeeded: "succeeded",
    Failed: "failed",
    Retried: "retried",
    Cancelled: "cancelled",
    Snoozed: "snoozed",
    Submitted: "submitted",
    Expanded: "expanded",
}
# The run was stopped: by its worker, which leaves, or because its task was cancelled or taken over.
STOPPED = "stopped"
# How many callers of a list are linked to; OpenTelemetry keeps as many.
MOST_LINKS = 128


def make_recorder(tracers: object, meters: object) -> Recorder:
    """What records with these providers; either may be None."""
    own = version("windlass")
    tracer = None
    if tracers is not None:
        given: Any = tracers
        provider: TracerProvider = given
        tracer = provider.get_tracer("windlass", own)
    counted: Any = meters
    provider_of_meters: MeterProvider | None = counted
    return Recorder(tracer, None if provider_of_meters is None else Meters(provider_of_meters, own))


class Recorder:
    """Makes the spans of one tracer, and counts with one set of instruments."""

    def __init__(self, tracer: Tracer | None, meters: Meters | None) -> None:
        self.tracer = tracer
        self.meters = meters

    def send(self, kind: str, count: int) -> Sending:
        """Around an enqueue of `count` tasks, or the start of a flow."""
        return Sending(self, kind, count)

    def process(
        self, kind: str, task: Claimed, *, key: str | None, is_item: bool = False
    ) -> Processing:
        """Around the run of a task, or of one item of a sweep."""
        facts = partial(_item_facts if is_item else _task_facts, task, key)
        return Processing(self, kind, facts, payloads=(task.payload,))

    def together(self, kind: str, tasks: Sequence[Claimed]) -> Processing:
        """Around the call of a handler with a list: a trace of its own, linked to each caller's."""
        if len(tasks) == 1:
            return self.process(kind, tasks[0], key=tasks[0].task_key)
        payloads = tuple(task.payload for task in tasks)
        return Processing(self, kind, partial(_list_facts, tasks), payloads=payloads)

    def page(self, kind: str, task: Claimed, *, rows: int, runs: int) -> PageSpan | None:
        """Around all items of one page of a sweep; None if nothing is traced."""
        return None if self.tracer is None else PageSpan(self.tracer, kind, task, rows, runs)

    def item(self, kind: str, page: PageSpan) -> ItemProcessing:
        """Around the run of an item of a page."""
        return ItemProcessing(self, kind, page)

    def poll(self, kind: str, count: int) -> Block:
        """Around one call that polls an external system for `count` tasks."""
        facts = _base(kind, names.POLL, names.RECEIVE) | {names.MESSAGE_COUNT: count}
        return self._block(f"{names.POLL} {kind}", SpanKind.CLIENT, facts)

    def control(self, name: str, partition: str, tries: int) -> ControlBlock:
        """Around the block of a control run."""
        facts: dict[str, str | int | float | bool]
        facts = {names.CONTROL: name, names.TRIES: tries}
        if partition:
            facts[names.PARTITION] = partition
        tracer = self.tracer
        if tracer is None:
            return ControlBlock(None)
        return ControlBlock(lambda: (tracer.start_span(f"control {name}", attributes=facts), None))

    def span_ids(self) -> tuple[str, str] | None:
        """The ids of the current trace and span; None without a span."""
        try:
            current = get_current_span().get_span_context()
        except Exception as problem:
            FENCE.report(problem)
            return None
        if self.tracer is None or not current.is_valid:
            return None
        return format_trace_id(current.trace_id), format_span_id(current.span_id)

    def _block(self, title: str, kind: SpanKind, facts: Attributes) -> Block:
        tracer = self.tracer
        if tracer is None:
            return Block(None)
        return Block(lambda: (tracer.start_span(title, kind=kind, attributes=facts), None))


class Sending(Block):
    """An enqueue. `carrier` is the context that travels in the rows."""

    __slots__ = ("_count", "_kind", "_recorder", "_since", "carrier")

    def __init__(self, recorder: Recorder, kind: str, count: int) -> None:
        super().__init__(None if recorder.tracer is None else partial(self._start, recorder.tracer))
        self._recorder = recorder
        self._kind = kind
        self._count = count
        self._since = time.perf_counter()
        self.carrier: Carrier | None = None

    def wrote(self, first: int) -> None:
        """The tasks were written; `first` is the id of the first one, or of the flow run."""
        try:
            if self._count == 1:
                self._set({names.MESSAGE_ID: str(first)})
        except Exception as problem:
            FENCE.report(problem)

    def _start(self, tracer: Tracer) -> tuple[Span, None]:
        facts = _base(self._kind, names.SEND, names.SEND)
        if self._count > 1:
            facts[names.MESSAGE_COUNT] = self._count
        title = f"{names.SEND} {self._kind}"
        return tracer.start_span(title, kind=SpanKind.PRODUCER, attributes=facts), None

    def _began(self) -> None:
        if self._span is None:
            return
        carrier: Carrier = {}
        propagate.inject(carrier)
        if sum(map(len, carrier.values())) > LARGEST_CARRIER:
            carrier = {name: carrier[name] for name in TRACE_HEADERS if name in carrier}
        if carrier and self._count > 1:
            carrier[MANY] = "1"
        self.carrier = carrier or None

    def _ended(self, error: BaseException | None) -> None:
        super()._ended(error)
        meters = self._recorder.meters
        if meters is not None:
            seconds = time.perf_counter() - self._since
            meters.sent(self._kind, count=self._count, seconds=seconds, error=self.error)


class Processing(Block):
    """The run of a task."""

    __slots__ = ("_cause", "_facts", "_kind", "_outcome", "_payloads", "_recorder", "_since")

    def __init__(
        self, recorder: Recorder, kind: str, facts: Any, *, payloads: Sequence[str] = ()
    ) -> None:
        super().__init__(None if recorder.tracer is None else partial(self._start, recorder.tracer))
        self._recorder = recorder
        self._kind = kind
        self._facts = facts
        self._payloads = payloads
        self._outcome: Outcome | None = None
        self._cause: BaseException | None = None
        self._since = time.perf_counter()

    def ends(self, outcome: Outcome | None, error: BaseException | None) -> None:
        """How the run ends, and what was raised; without an outcome it was stopped."""
        self._outcome, self._cause = outcome, error

    def _start(self, tracer: Tracer) -> tuple[Span, Context | None]:
        facts = _base(self._kind, names.PROCESS, names.PROCESS) | self._facts()
        parent, links = Context(), dict[int, Link]()
        for payload in self._payloads:
            carrier = trace_of(payload)
            if not carrier or len(links) == MOST_LINKS:
                continue
            came = propagate.extract(carrier, Context())
            sent = get_current_span(came).get_span_context()
            if sent.is_valid:
                links[sent.span_id] = Link(sent)
            # Without its span, what else the caller's context has still reaches the handler.
            is_many = MANY in carrier
            if len(self._payloads) == 1:
                parent = set_span_in_context(INVALID_SPAN, came) if is_many else came
        span = tracer.start_span(
            f"{names.PROCESS} {self._kind}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=facts,
            links=list(links.values()),
        )
        return span, parent

    def _ended(self, error: BaseException | None) -> None:
        outcome, cause = self._outcome, self._cause
        self._set({names.OUTCOME: _told(outcome)})
        # A handler that raises Retry asks for it, which is not an error.
        is_asked = isinstance(outcome, Retried) and isinstance(cause, Signal)
        if isinstance(outcome, Failed | Retried) and not is_asked:
            self._failed(cause, outcome.error)
        meters = self._recorder.meters
        if meters is not None:
            seconds = time.perf_counter() - self._since
            meters.processed(self._kind, seconds=seconds, error=self.error)


class ItemProcessing(Processing):
    """The run of an item of a sweep, inside the span of its page."""

    __slots__ = ("_page",)

    def __init__(self, recorder: Recorder, kind: str, page: PageSpan) -> None:
        super().__init__(recorder, kind, None)
        self._page = page
        self._begin = None

    def _began(self) -> None:
        self._token = context_api.attach(self._page.entered())

    def _ended(self, error: BaseException | None) -> None:
        super()._ended(error)
        if self.error is not None:
            self._page.failed(self._cause)


class PageSpan:
    """The span of one page of a sweep: from its first item until each item has ended once."""

    def __init__(self, tracer: Tracer, kind: str, task: Claimed, rows: int, runs: int) -> None:
        self._tracer = tracer
        self._title = f"{names.PROCESS} {kind}"
        self._attributes: dict[str, str | int | float | bool] = {
            **_base(kind, names.PROCESS, names.PROCESS),
            names.MESSAGE_COUNT: rows,
            names.RANGE: task.id,
            names.CLIENT_ID: str(task.worker),
        }
        self._lock = Lock()
        self._open = runs
        self._failures = 0
        self._span: Span | None = None
        self._context: Context = Context()
        self.is_over = False

    def entered(self) -> Context:
        """The context of its items; its span begins with the first of them."""
        with self._lock:
            if self._span is None:
                self._span = self._tracer.start_span(
                    self._title,
                    context=Context(),
                    kind=SpanKind.CONSUMER,
                    attributes=self._attributes,
                )
                self._context = set_span_in_context(self._span, Context())
            return self._context

    def failed(self, error: BaseException | None) -> None:
        """An item has failed; the span shows the first error."""
        with self._lock:
            self._failures += 1
            span, is_first = self._span, self._failures == 1
        if span is not None and is_first and error is not None:
            span.record_exception(error)

    def landed(self) -> None:
        """One of its items has ended for the first time."""
        with self._lock:
            self._open -= 1
            is_over = self._open <= 0
        if is_over:
            self.end()

    def end(self) -> None:
        """End the span, if it has begun and has not ended; also if items of it never ran."""
        with self._lock:
            span, was_over, self.is_over = self._span, self.is_over, True
        if span is None or was_over:
            return
        try:
            span.set_attribute(names.FAILED, self._failures)
            span.end()
        except Exception as problem:
            FENCE.report(problem)


class ControlBlock(Block):
    """The block of a control run."""

    __slots__ = ()

    def end(self, error: BaseException | None, failing: str | None) -> None:
        """The block has ended: by an error, or as failed for the reason `failing`."""
        if error is None and failing is not None:
            try:
                self._failed(None, failing)
            except Exception as problem:
                FENCE.report(problem)
        self.__exit__(None, error, None)

    def step(self, step: object, *, is_skipped: bool) -> None:
        """The run begins a step, or skips it."""
        try:
            if self._span is not None:
                facts: Attributes = {names.STEP: str(step), names.SKIPPED: is_skipped}
                self._span.add_event("step", facts)
        except Exception as problem:
            FENCE.report(problem)


def _base(kind: str, operation: str, operation_type: str) -> dict[str, str | int | float | bool]:
    return {
        names.SYSTEM: names.WINDLASS,
        names.OPERATION: operation,
        names.OPERATION_TYPE: operation_type,
        names.DESTINATION: kind,
    }


def _task_facts(task: Claimed, key: str | None) -> dict[str, str | int | float | bool]:
    facts: dict[str, str | int | float | bool] = {
        names.MESSAGE_ID: str(task.id),
        names.CLIENT_ID: str(task.worker),
        names.ATTEMPT: task.attempt,
        names.WAIT_SECONDS: max(0, task.started_at - task.due_at) / 1e6,
    }
    if key is not None:
        facts[names.KEY] = key
    if task.flow_id is not None:
        facts[names.FLOW_RUN] = task.flow_id
    return facts


def _list_facts(tasks: Sequence[Claimed]) -> dict[str, str | int | float | bool]:
    return {names.MESSAGE_COUNT: len(tasks), names.CLIENT_ID: str(tasks[0].worker)}


def _item_facts(task: Claimed, key: str | None) -> dict[str, str | int | float | bool]:
    facts: dict[str, str | int | float | bool] = {names.ATTEMPT: task.attempt}
    if key is not None:
        facts[names.KEY] = key
    if task.id:
        # Not for a visit, whose caller runs it.
        facts |= {names.RANGE: task.id, names.CLIENT_ID: str(task.worker)}
    return facts


def _told(outcome: Outcome | None) -> str:
    if isinstance(outcome, Cancelled) and outcome.is_skipped:
        return "skipped"
    if isinstance(outcome, Snoozed) and outcome.overload is not None:
        return "overloaded"
    return STOPPED if outcome is None else OUTCOMES[type(outcome)]
