"""Windlass: durable background work on the database you already have."""

from windlass.app import App
from windlass.declare.external import External
from windlass.declare.flow import Edit, Flow, FlowRun, Node
from windlass.declare.rolling import Rolling
from windlass.declare.sweep import Sweep
from windlass.declare.task import Task, TaskRef
from windlass.engine.context import Context, context
from windlass.engine.controlled import ControlRun
from windlass.errors import (
    AlreadyRunning,
    BadArgument,
    BadBreaker,
    BadConnection,
    BadDatabase,
    BadDeclaration,
    BadDuration,
    BadFlow,
    BadInput,
    BadKey,
    BadMembers,
    BadRate,
    BadSchedule,
    BadSource,
    BadStep,
    BadWindow,
    Cancel,
    DatabaseUnavailable,
    DuplicateKey,
    DuplicateKind,
    HeldBack,
    ItemNotFound,
    MembersUnavailable,
    NoContext,
    NotSerializable,
    PastTime,
    PayloadTooLarge,
    ResultTimeout,
    Retry,
    RunLost,
    SchemaMismatch,
    Signal,
    Snooze,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
    UnknownFlow,
    UnknownHandle,
    UnknownKind,
    UnknownNode,
    WindlassError,
)
from windlass.model.audit import Audit
from windlass.model.control import Reply, RunStatus, RunView
from windlass.model.external import Done, Failed, Running
from windlass.model.keys import Keys
from windlass.model.rolling import Freshness, Item, Mirror
from windlass.model.run import FlowGraph, FlowProgress, NodeView
from windlass.model.source import MirrorSource, Source, SweepSource
from windlass.model.status import Status
from windlass.model.step import StepView
from windlass.model.sweep import Progress, RangeView, RoundView, SetAside, SweepVisit
from windlass.store.file import Csv, Lines
from windlass.store.pages import Pages
from windlass.store.source import Table

__version__ = "0.1.0"

__all__ = [
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
    "BadRate",
    "BadSchedule",
    "BadSource",
    "BadStep",
    "BadWindow",
    "Cancel",
    "Context",
    "ControlRun",
    "Csv",
    "DatabaseUnavailable",
    "Done",
    "DuplicateKey",
    "DuplicateKind",
    "Edit",
    "External",
    "Failed",
    "Flow",
    "FlowGraph",
    "FlowProgress",
    "FlowRun",
    "Freshness",
    "HeldBack",
    "Item",
    "ItemNotFound",
    "Keys",
    "Lines",
    "MembersUnavailable",
    "Mirror",
    "MirrorSource",
    "NoContext",
    "Node",
    "NodeView",
    "NotSerializable",
    "Pages",
    "PastTime",
    "PayloadTooLarge",
    "Progress",
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
    "SetAside",
    "Signal",
    "Snooze",
    "Source",
    "Status",
    "StepView",
    "Sweep",
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
    "WindlassError",
    "__version__",
    "context",
]
