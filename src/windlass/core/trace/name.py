"""The names of spans, attributes and metrics: those of the messaging conventions, and our own."""

from __future__ import annotations

SYSTEM = "messaging.system"
WINDLASS = "windlass"
DESTINATION = "messaging.destination.name"
OPERATION = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
MESSAGE_ID = "messaging.message.id"
MESSAGE_COUNT = "messaging.batch.message_count"
CLIENT_ID = "messaging.client.id"
ERROR_TYPE = "error.type"
# For an error without an exception.
OTHER_ERROR = "_OTHER"

SEND, PROCESS, RECEIVE, POLL = "send", "process", "receive", "poll"

KEY = "windlass.key"
ATTEMPT = "windlass.attempt"
WAIT_SECONDS = "windlass.wait_seconds"
OUTCOME = "windlass.outcome"
FLOW_RUN = "windlass.flow_run"
RANGE = "windlass.range"
FAILED = "windlass.failed"
CONTROL = "windlass.control"
PARTITION = "windlass.partition"
TRIES = "windlass.tries"
STEP = "windlass.step"
SKIPPED = "windlass.skipped"

SENT_MESSAGES = "messaging.client.sent.messages"
CONSUMED_MESSAGES = "messaging.client.consumed.messages"
SEND_SECONDS = "messaging.client.operation.duration"
PROCESS_SECONDS = "messaging.process.duration"
