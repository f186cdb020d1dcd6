"""Carriers: a worker's runs are carried to consumers, which need no database."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.face import FaceLoop, Workplace
from windlass.core.task.kind import Kind
from windlass.queue.engine.carrier.by_broker import BrokerTransport
from windlass.queue.engine.carrier.receiver import Receiver
from windlass.queue.engine.carrier.sender import CarrierSender
from windlass.queue.engine.carrier.transport import Carrier, Transport
from windlass.queue.model.queue import Queue
from windlass.queue.store.inbox import TABLES


def carrier_loops(workplace: Workplace) -> Sequence[FaceLoop]:
    """The loops that carry the kinds of a worker; none for a drain, which runs handlers itself."""
    if workplace.until_idle:
        return []
    kinds_by: dict[Queue | Carrier, list[Kind]] = {}
    for kind in workplace.kinds.values():
        if isinstance(kind.via, Queue | Carrier):
            kinds_by.setdefault(kind.via, []).append(kind)
    if kinds_by:
        workplace.site.database.schema.need(TABLES, "via=")
    loops: list[FaceLoop] = []
    for via, kinds in kinds_by.items():
        sender = CarrierSender(via, kinds, transport_to(via), workplace)
        loops += [sender, Receiver(sender, workplace)]
    return loops


def transport_to(via: Queue | Carrier) -> Transport:
    """The way to the consumers of a queue, or of another carrier."""
    return BrokerTransport(via) if isinstance(via, Queue) else via.connect()
