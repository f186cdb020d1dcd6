"""The public names are a closed list: adding one is a decision, removing one a break."""

import inspect

import windlass

PUBLIC = {
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
    "ExternalFailed",
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
}


def test_the_public_names_are_exactly_these():
    assert set(windlass.__all__) == PUBLIC


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
