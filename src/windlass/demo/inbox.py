"""The inbox of the shop's people: alerts arrive here as signed webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

KEPT = 50
SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True)
class Letter:
    """One alert as it arrived."""

    id: str
    title: str
    text: str
    # The worst of its alerts.
    severity: str
    is_resolved: bool
    at: str


class Inbox:
    """Keeps the last alerts whose signature is right; one that comes twice is kept once."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._letters: deque[Letter] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    @property
    def secret(self) -> str:
        """The secret of the webhook."""
        return f"whsec_{base64.b64encode(self._key).decode()}"

    def take(self, given: Mapping[str, str], body: bytes) -> tuple[int, object]:
        """Keep an alert; the status and the body of the answer."""
        headers = {name.lower(): value for name, value in given.items()}
        number = headers.get("webhook-id", "")
        signed = f"{number}.{headers.get('webhook-timestamp', '')}.".encode() + body
        digest = base64.b64encode(hmac.digest(self._key, signed, hashlib.sha256)).decode()
        if not hmac.compare_digest(f"v1,{digest}", headers.get("webhook-signature", "")):
            return 401, {"error": "the signature is wrong"}
        said = json.loads(body)
        data, is_resolved = said["data"], said["type"] == "alert.resolved"
        found = [alert["severity"] for alert in data["alerts"]]
        worst = max(found, key=SEVERITIES.index, default="info")
        letter = Letter(number, data["title"], data["text"], worst, is_resolved, said["timestamp"])
        with self._lock:
            if all(each.id != number for each in self._letters):
                self._letters.append(letter)
        return 200, {"kept": True}

    def letters(self) -> list[Letter]:
        """What arrived last, newest first."""
        with self._lock:
            return list(reversed(self._letters))
