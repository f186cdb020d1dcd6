"""What an operator can do, who does it, and what the audit log keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from windlass.value.view import JsonText, Moment


class Action(StrEnum):
    """What an operator can do."""

    ALERT_ACKNOWLEDGE = "alert.acknowledge"
    ALERT_RECALL = "alert.recall"
    CONTROL_RELEASE = "control.release"
    CONTROL_RESET = "control.reset"
    FLOW_CANCEL = "flow.cancel"
    FLOW_EDIT = "flow.edit"
    FLOW_RETRY = "flow.retry"
    FLOW_SKIP = "flow.skip"
    FLOW_START = "flow.start"
    LEDGER_ADJUST = "ledger.adjust"
    LEDGER_CONFIRM = "ledger.confirm"
    LEDGER_DEDUCT = "ledger.deduct"
    LEDGER_GIVE_BACK = "ledger.give_back"
    LEDGER_RESTOCK = "ledger.restock"
    LEDGER_VOID = "ledger.void"
    ROLLING_ADD = "rolling.add"
    ROLLING_FOLLOW = "rolling.follow"
    ROLLING_MIRROR = "rolling.mirror"
    ROLLING_REMOVE = "rolling.remove"
    ROLLING_UNFOLLOW = "rolling.unfollow"
    ROLLING_VISIT = "rolling.visit"
    SHARD_DRAIN = "shard.drain"
    SHARD_MOVE = "shard.move"
    SWEEP_RETRY = "sweep.retry"
    SWEEP_SPLIT = "sweep.split"
    SWEEP_START = "sweep.start"
    SWITCH_CLOSE_BREAKER = "switch.close_breaker"
    SWITCH_PAUSE = "switch.pause"
    SWITCH_RESUME = "switch.resume"
    SWITCH_SET = "switch.set"
    TASK_CANCEL = "task.cancel"
    TASK_ENQUEUE = "task.enqueue"
    TASK_RETRY = "task.retry"
    TEMPLATE_SAVE = "template.save"


@dataclass(frozen=True)
class Operator:
    """Who acts, by which means, and from which address."""

    who: str
    via: str
    address: str | None = None


@dataclass(frozen=True)
class AuditEntry:
    """What a person did or tried; `detail` is JSON. `ok` is None until the action ends."""

    id: int
    acted_at: Moment
    who: str
    via: str
    address: str | None
    action: str
    about: str | None
    detail: JsonText | None
    ok: bool | None = None
    outcome: str | None = None


class Before(NamedTuple):
    """The place of an entry in the list."""

    acted_at: int
    id: int
