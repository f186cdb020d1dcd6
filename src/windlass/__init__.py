"""Windlass: durable background work on the database you already have."""

from typing import TYPE_CHECKING

from windlass.lazy import attributes_of

if TYPE_CHECKING:
    from windlass.app import App
    from windlass.control.engine.run import ControlRun
    from windlass.control.model.control import Reply, RunStatus, RunView
    from windlass.control.model.step import StepView
    from windlass.core.task.declare import Task, TaskRef
    from windlass.core.task.hook import MiddlewareContext
    from windlass.core.task.items import ListTask
    from windlass.database.sink import amake_sink, asink, asink_many, make_sink, sink, sink_many
    from windlass.errors import *
    from windlass.external.model import Done, External, Failed, Running
    from windlass.flow.declare import Drawing, Edit, Node
    from windlass.flow.model.run import FlowGraph, FlowProgress, NodeView
    from windlass.flow.operate.flow import Flow
    from windlass.flow.operate.run import FlowRun
    from windlass.handler import Context, context
    from windlass.rolling.model import Freshness, Item, Mirror
    from windlass.rolling.operate.handle import Rolling
    from windlass.source.contract import MirrorSource, Source, SweepSource
    from windlass.source.file import Csv, Lines
    from windlass.source.keys import Keys
    from windlass.source.pages import Pages
    from windlass.source.search.index import SearchIndex
    from windlass.source.store.table import Table
    from windlass.sweep.model import Progress, RangeView, RoundView, SetAside, SweepVisit
    from windlass.sweep.operate.run import SweepRun
    from windlass.sweep.operate.sweep import Sweep
    from windlass.value.calendar.window import Window
    from windlass.value.period import VisitSoon
    from windlass.value.status import Status
    from windlass.view.audit import Audit
    from windlass.watch.promise.model.promise import Promise

__version__ = "0.2.0.dev0"

__all__ = [
    "AlreadyDone",
    "AlreadyRunning",
    "App",
    "Audit",
    "BadArgument",
    "BadBreaker",
    "BadConnection",
    "BadDatabase",
    "BadDeclaration",
    "BadDuration",
    "BadFlow",
    "BadInput",
    "BadKey",
    "BadMembers",
    "BadQueue",
    "BadRate",
    "BadSchedule",
    "BadSource",
    "BadStep",
    "BadWindow",
    "BrokerRefused",
    "BrokerUnavailable",
    "Cancel",
    "Context",
    "ControlRun",
    "Csv",
    "DatabaseUnavailable",
    "Done",
    "Drawing",
    "DuplicateKey",
    "DuplicateKind",
    "Edit",
    "External",
    "ExternalFailed",
    "Failed",
    "Flow",
    "FlowGraph",
    "FlowProgress",
    "FlowRun",
    "Freshness",
    "HandlerDied",
    "HeldBack",
    "Item",
    "ItemNotFound",
    "Keys",
    "Lines",
    "ListTask",
    "MembersUnavailable",
    "MiddlewareContext",
    "Mirror",
    "MirrorSource",
    "NoContext",
    "Node",
    "NodeView",
    "NotSerializable",
    "OutsideTest",
    "Overloaded",
    "Pages",
    "PastTime",
    "PayloadTooLarge",
    "Progress",
    "Promise",
    "RangeView",
    "Reply",
    "ResultTimeout",
    "Retry",
    "Rolling",
    "RoundView",
    "RunLost",
    "RunStatus",
    "RunView",
    "Running",
    "SchemaMismatch",
    "SearchIndex",
    "SetAside",
    "Signal",
    "Snooze",
    "Source",
    "Status",
    "StepView",
    "Sweep",
    "SweepRun",
    "SweepSource",
    "SweepVisit",
    "Table",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskNotFound",
    "TaskRef",
    "UnknownFlow",
    "UnknownHandle",
    "UnknownKind",
    "UnknownNode",
    "VisitSoon",
    "WindlassError",
    "Window",
    "__version__",
    "amake_sink",
    "asink",
    "asink_many",
    "context",
    "make_sink",
    "sink",
    "sink_many",
]

# What is imported when it is first used: a program pays only for the parts that it needs.
__getattr__ = attributes_of(
    __name__,
    {
        # All names that are in no other module.
        "windlass.errors": __all__,
        "windlass.app": ("App",),
        "windlass.control.engine.run": ("ControlRun",),
        "windlass.control.model.control": ("Reply", "RunStatus", "RunView"),
        "windlass.control.model.step": ("StepView",),
        "windlass.handler": ("Context", "context"),
        "windlass.core.task.declare": ("Task", "TaskRef"),
        "windlass.core.task.hook": ("MiddlewareContext",),
        "windlass.core.task.items": ("ListTask",),
        "windlass.database.sink": (
            "amake_sink",
            "asink",
            "asink_many",
            "make_sink",
            "sink",
            "sink_many",
        ),
        "windlass.external.model": ("Done", "External", "Failed", "Running"),
        "windlass.flow.declare": ("Drawing", "Edit", "Node"),
        "windlass.flow.model.run": ("FlowGraph", "FlowProgress", "NodeView"),
        "windlass.flow.operate.flow": ("Flow",),
        "windlass.flow.operate.run": ("FlowRun",),
        "windlass.rolling.operate.handle": ("Rolling",),
        "windlass.rolling.model": ("Freshness", "Item", "Mirror"),
        "windlass.source.contract": ("MirrorSource", "Source", "SweepSource"),
        "windlass.source.file": ("Csv", "Lines"),
        "windlass.source.keys": ("Keys",),
        "windlass.source.pages": ("Pages",),
        "windlass.source.search.index": ("SearchIndex",),
        "windlass.source.store.table": ("Table",),
        "windlass.sweep.model": ("Progress", "RangeView", "RoundView", "SetAside", "SweepVisit"),
        "windlass.sweep.operate.run": ("SweepRun",),
        "windlass.sweep.operate.sweep": ("Sweep",),
        "windlass.view.audit": ("Audit",),
        "windlass.value.status": ("Status",),
        "windlass.value.period": ("VisitSoon",),
        "windlass.value.calendar.window": ("Window",),
        "windlass.watch.promise.model.promise": ("Promise",),
    },
    modules=(
        *("errors", "external", "ledger", "logging", "metrics"),
        *("queue", "ring", "telemetry", "testing", "web"),
    ),
)
