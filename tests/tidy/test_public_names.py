"""The public names are a closed list: adding one is a decision, removing one a break."""

import inspect
import re
from importlib import import_module
from types import ModuleType

import pytest

import windlass
from tests.story.page import pages
from tests.tidy.source import ROOT

PUBLIC = {
    "ListTask",
    "amake_sink",
    "asink",
    "asink_many",
    "make_sink",
    "sink",
    "sink_many",
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
    "MembersUnavailable",
    "MiddlewareContext",
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
    "OutsideTest",
    "Overloaded",
    "Snooze",
    "VisitSoon",
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
    "WindlassError",
    "Window",
    "__version__",
    "context",
}


MODULES = {
    "windlass.contrib.fastapi": {
        "ConsoleUser",
        "Joined",
        "console",
        "console_router",
        "join",
        "lifespan",
    },
    "windlass.contrib.flask": {"ConsoleUser", "Joined", "Windlass", "console", "join"},
    "windlass.external": {"Command", "HttpJob"},
    "windlass.ledger": {
        "Audit",
        "BalanceLimit",
        "Confirmation",
        "Deduction",
        "DeductionLine",
        "DeductionStatus",
        "Entry",
        "HotLane",
        "CacheUnavailable",
        "NotDecided",
        "IdConflict",
        "InvalidQuantity",
        "Ledger",
        "Line",
        "Movement",
        "NotHeld",
        "OutOfStock",
        "OverReturn",
        "Receipt",
        "Refused",
        "Return",
        "Stock",
        "UnknownDeduction",
        "UnknownSku",
    },
    "windlass.ledger.http": {"create"},
    "windlass.logging": {"JsonFormatter", "ContextFilter", "add_task", "task_fields"},
    "windlass.metrics": {"register"},
    "windlass.ring": {"arcs", "assign", "spread", "tokens_of"},
    "windlass.telemetry": {"Event", "emit", "subscribe"},
    "windlass.testing": {
        "Clock",
        "Enqueued",
        "assert_enqueued",
        "borrowed",
        "drain",
        "enqueued",
        "pytest_addoption",
        "windlass_app",
        "windlass_app_source",
        "windlass_clock",
        "windlass_databases",
        "windlass_lender",
        "windlass_outside",
    },
    "windlass.queue": {
        "ArrivedReply",
        "Broker",
        "Carrier",
        "Consumer",
        "Delivered",
        "FailedMessage",
        "Outgoing",
        "Queue",
        "QueueDetail",
        "QueueView",
        "ReceivedMessage",
        "Sent",
        "Subscription",
        "Transport",
        "register",
    },
    "windlass.web": {"Proxy", "create"},
}
"""Every other public module; whatever else is in the package may change without a word."""
IMPORTED = re.compile(r"^\s*(?:from|import) (windlass(?:\.\w+)*)(?!\w)", re.MULTILINE)


# Public in a project of Django only: they read its settings. `examples/django` uses them.
IN_DJANGO = {"windlass.contrib.django", "windlass.contrib.django.test"}


def test_the_public_names_are_exactly_these():
    assert set(windlass.__all__) == PUBLIC


@pytest.mark.parametrize("name", MODULES)
def test_the_names_of_a_public_module_are_exactly_these(name):
    module = import_module(name)

    assert names_of(module) == MODULES[name]
    assert [each for each in MODULES[name] if not hasattr(module, each)] == []


def test_a_public_module_need_not_be_imported_by_itself():
    top = {name for name in MODULES if name.count(".") == 1}

    assert [name for name in top if getattr(windlass, name.partition(".")[2], None) is None] == []


def test_readers_are_told_of_public_modules_only():
    public = {"windlass", *MODULES, *IN_DJANGO}
    told = {name for page in pages() for name in IMPORTED.findall(page.read_text())}
    used = {
        name
        for path in (ROOT / "examples").rglob("*.py")
        for name in IMPORTED.findall(path.read_text())
    }

    assert (told | used) - public == set()


def test_every_public_name_exists():
    assert [name for name in windlass.__all__ if not hasattr(windlass, name)] == []


def test_every_public_name_says_what_it_is():
    named = {name: getattr(windlass, name) for name in windlass.__all__}
    documentable = {
        name: value
        for name, value in named.items()
        if inspect.isclass(value) or inspect.isroutine(value)
    }

    silent = [name for name, value in documentable.items() if not (value.__doc__ or "").strip()]

    assert silent == []


def test_every_public_method_says_what_it_does():
    classes = [value for name in PUBLIC if inspect.isclass(value := getattr(windlass, name))]

    silent = [
        f"{owner.__name__}.{name}"
        for owner in classes
        for name, member in vars(owner).items()
        if not name.startswith("_") and _is_code(member) and not inspect.getdoc(member)
    ]

    assert silent == []


def _is_code(member: object) -> bool:
    return inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)


def names_of(module: ModuleType) -> set[str]:
    """What `__all__` says, or the functions and classes that are made there."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        if inspect.isclass(value) or inspect.isroutine(value)
    }
