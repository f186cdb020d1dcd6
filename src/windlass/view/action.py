"""What an operator can do, and who does it: the words of the audit log."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from enum import StrEnum

# The log keeps at most this many characters of arguments.
LONGEST_TOLD = 2_000


class Action(StrEnum):
    """What an operator can do."""

    ALERT_ACKNOWLEDGE = "alert.acknowledge"
    ALERT_RECALL = "alert.recall"
    ALERT_TEST = "alert.test"
    CONTROL_ERROR = "control.error"
    CONTROL_FINISH = "control.finish"
    CONTROL_NOTE = "control.note"
    CONTROL_RELEASE = "control.release"
    CONTROL_RESET = "control.reset"
    CONTROL_START = "control.start"
    CONTROL_STEP = "control.step"
    CRON_RESET = "cron.reset"
    CRON_RUN = "cron.run"
    CRON_SET = "cron.set"
    FLOW_CANCEL = "flow.cancel"
    FLOW_EDIT = "flow.edit"
    FLOW_RETRY = "flow.retry"
    FLOW_SKIP = "flow.skip"
    FLOW_START = "flow.start"
    LEDGER_ADJUST = "ledger.adjust"
    LEDGER_ALLOT = "ledger.allot"
    LEDGER_CONFIRM = "ledger.confirm"
    LEDGER_DEDUCT = "ledger.deduct"
    LEDGER_EXCHANGE = "ledger.exchange"
    LEDGER_GIVE_BACK = "ledger.give_back"
    LEDGER_PROTECT = "ledger.protect"
    LEDGER_RECALL = "ledger.recall"
    LEDGER_RECOVER = "ledger.recover"
    LEDGER_RESTOCK = "ledger.restock"
    LEDGER_VOID = "ledger.void"
    QUEUE_DROP = "queue.drop"
    QUEUE_RETRY = "queue.retry"
    ROLLING_ADD = "rolling.add"
    ROLLING_FOLLOW = "rolling.follow"
    ROLLING_MIRROR = "rolling.mirror"
    ROLLING_REMOVE = "rolling.remove"
    ROLLING_UNFOLLOW = "rolling.unfollow"
    ROLLING_VISIT = "rolling.visit"
    SHARD_DRAIN = "shard.drain"
    SHARD_MOVE = "shard.move"
    SWEEP_CANCEL = "sweep.cancel"
    SWEEP_RETRY = "sweep.retry"
    SWEEP_SPLIT = "sweep.split"
    SWEEP_START = "sweep.start"
    SWEEP_VISIT = "sweep.visit"
    SWITCH_CLOSE_BREAKER = "switch.close_breaker"
    SWITCH_PAUSE = "switch.pause"
    SWITCH_RESUME = "switch.resume"
    SWITCH_SET = "switch.set"
    TASK_CANCEL = "task.cancel"
    TASK_ENQUEUE = "task.enqueue"
    TASK_NOTIFY = "task.notify"
    TASK_RETRY = "task.retry"
    TEMPLATE_SAVE = "template.save"
    TOKEN_CREATE = "token.create"
    TOKEN_REVOKE = "token.revoke"


@dataclass(frozen=True)
class Operator:
    """Who acts, by which means, and from which address."""

    who: str
    via: str
    address: str | None = None


def whoami() -> str:
    """The user and the host."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def this_process() -> str:
    """The user, the host and the process."""
    return f"{whoami()[:240]} {os.getpid()}"
