"""Failures and recovery: a worker dies, a service is down, a switch is off."""

from __future__ import annotations

from windlass.demo import shop
from windlass.demo.crew import Crew, WorkerProcess
from windlass.demo.routine import Diary, Mood, Routine
from windlass.demo.service import Service

MAIL = "send_mail"
MOODS: dict[str, Mood] = {"breaker opened": "bad", "breaker closed": "good", "poison": "bad"}


class ShopTrouble:
    """Causes failures at fixed times, so that the screen can announce them.

    With a larger `pace` they begin earlier and are shorter, but do not repeat more often.
    """

    def __init__(self, crew: Crew, service: Service, diary: Diary, *, pace: float) -> None:
        self._crew, self._service, self._diary, self._pace = crew, service, diary, pace
        self._alerts_seen = 0
        self.death = Routine("death", self._kill, first=14 / pace, every=(22, 22))
        self.outage = Routine("outage", self._fail, first=10 / pace, every=(48, 48))
        self.closing = Routine("switch", self._close, first=20 / pace, every=(45, 45))
        watching = Routine("watch", self._watch, first=1.0, every=(1.0, 1.0))
        self.routines = [self.death, self.outage, self.closing, watching]

    def _kill(self) -> None:
        """Every 30 seconds, kill the second worker for 8 seconds."""
        victim = self._crew.workers[1]
        pid = victim.pid
        victim.kill()
        self._diary.write(f"worker 2 (pid {pid}) was killed during its work", "bad")
        if self.death.pause(8 / self._pace):
            victim.start()
            self._diary.write(f"worker 2 is back (pid {victim.pid})", "good")

    def _fail(self) -> None:
        """Every minute, take the inventory down for 12 seconds."""
        self._service.is_down = True
        self._diary.write("the inventory is down: every call to it fails", "bad")
        self.outage.pause(12 / self._pace)
        self._service.is_down = False
        self._diary.write("the inventory answers again", "good")

    def _close(self) -> None:
        """Every minute, switch off mails for 15 seconds; they wait, and none is lost."""
        shop.app.pause(MAIL, reason="the mail provider is being upgraded", who="demo")
        self._diary.write("the switch of send_mail is off: mails wait")
        self.closing.pause(15 / self._pace)
        shop.app.resume(MAIL, who="demo")
        self._diary.write("the switch of send_mail is on again", "good")

    def _watch(self) -> None:
        """Report breakers, and restart workers that died by themselves."""
        for alert in reversed(shop.app.alerts(limit=20)):
            if alert.id > self._alerts_seen:
                self._alerts_seen = alert.id
                if alert.what in MOODS:
                    self._diary.write(alert.text, MOODS[alert.what])
        if self.death.next_at is not None:
            for worker in self._crew.workers:
                self._restart_dead(worker)

    def _restart_dead(self, worker: WorkerProcess) -> None:
        if not worker.is_alive:
            self._diary.write(f"worker {worker.number} died: {worker.last_line()}", "bad")
            worker.start()
