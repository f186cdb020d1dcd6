"""Callbacks come late, twice, forged or never, while workers and the other system are killed."""

import json
import urllib.error
import urllib.request

import pytest

from tests.external.job_server import JobServer
from tests.fault.crew import Process
from tests.server.process import free_port
from tests.wait import eventually
from windlass import App, Status
from windlass.external import HttpJob

MODULE = """
from windlass import App
from tests.fault.face.test_external import declare

app = App({url!r}, lease="5s", dead_after="2s")
declare(app, {jobs!r}, {callback!r})
"""


def declare(app, jobs, callback):
    system = HttpJob(f"{jobs}/jobs", f"{jobs}/jobs/{{handle}}", callback=callback, timeout="2s")
    return app.external("http", system, every="500ms", backoff="500ms", breaker="3 in a row, 1s")


class Site:
    """A database, a job server, and processes of Windlass over them."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        self.jobs = JobServer(folder, free_port()).start()
        self.port = free_port()
        self.callback = f"http://127.0.0.1:{self.port}"
        module = MODULE.format(url=url, jobs=self.jobs.url, callback=self.callback)
        (folder / "served.py").write_text(module)
        self.app = App(url)
        self.app.migrate()
        self.http = declare(self.app, self.jobs.url, self.callback)
        self.processes = []

    def start(self, *arguments):
        name = f"{arguments[0]}-{len(self.processes)}"
        command = ["windlass", *arguments]
        process = Process(command, folder=self.folder, name=name, url=self.url)
        self.processes.append(process)
        return process

    def start_worker(self):
        worker = self.start("worker", "served:app", "--json")
        eventually(worker.has_joined, 60, what="a worker that has joined")
        return worker

    def call(self, ref, *, secret=None, ok=True, result=None):
        """Call back for a task; the status of the answer, and whether it changed anything."""
        job = self.jobs.jobs()[str(ref.id)]
        body = json.dumps({"ok": ok, "result": result}).encode()
        headers = {"Authorization": f"Bearer {secret or job['secret']}"}
        request = urllib.request.Request(job["callback"], data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, json.load(response)["changed"]
        except urllib.error.HTTPError as problem:
            return problem.code, None
        except urllib.error.URLError:
            return None, None

    def close(self):
        for process in self.processes:
            process.kill()
        self.jobs.kill()
        self.app.close()


@pytest.fixture
def site(site_of, database_engine, tmp_path):
    site = Site(tmp_path, site_of(database_engine).url)
    yield site
    site.close()


@pytest.mark.mostly("postgresql")
def test_every_job_is_started_once_and_ends_once_whoever_dies(site):
    worker = site.start_worker()
    site.start("callback", "served:app", "--port", str(site.port))
    refs = [site.http.enqueue(name=f"job-{number}") for number in range(6)]
    told, forged, twice, lost, down, late = refs
    away = [Status.EXTERNAL] * 6
    eventually(lambda: [ref.status() for ref in refs] == away, 30, what="jobs that are submitted")

    # While no worker lives, callbacks are heard.
    worker.kill()
    eventually(lambda: site.call(forged, secret="forged")[0] == 404, 30, what="who listens")
    assert forged.status() is Status.EXTERNAL
    assert site.call(told, result="told") == (200, True)
    assert site.call(twice, result="first") == (200, True)
    assert site.call(twice, ok=False) == (200, False)
    # These end while nobody is there to hear of it, and then their system dies, too.
    for ref in (forged, lost, late):
        site.jobs.change(ref.id, status="done", result="polled")
    site.jobs.kill()
    worker = site.start_worker()
    eventually(lambda: "external.silent" in worker.log, 30, what="a system that is silent")
    assert lost.status() is Status.EXTERNAL
    worker.kill()
    site.jobs.start()
    site.jobs.change(down.id, status="failed", error="out of memory")
    site.start_worker()

    ends = [Status.SUCCEEDED] * 4 + [Status.FAILED, Status.SUCCEEDED]
    eventually(lambda: [ref.status() for ref in refs] == ends, 60, what="the ends of all jobs")
    assert [ref.result(timeout=1) for ref in (told, forged, twice, lost, late)] == [
        "told",
        "polled",
        "first",
        "polled",
        "polled",
    ]
    assert site.call(late, ok=False) == (200, False)
    assert {job["starts"] for job in site.jobs.jobs().values()} == {1}
    assert len(site.jobs.jobs()) == 6
