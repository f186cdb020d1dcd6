"""A system that executes jobs, behind HTTP: a process that tests kill and start again.

Jobs are kept in a file, under the key that their start carried: a start that is repeated is the
same job. `python -m tests.external.job_server PORT FILE` runs it.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Jobs:
    def __init__(self, path):
        self.path = Path(path)
        self.jobs = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.lock = threading.Lock()

    def save(self):
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.jobs))
        part.replace(self.path)


def serve(port, path):
    jobs = Jobs(path)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            with jobs.lock:
                self.change(body)

        def change(self, body):
            parts = self.path.strip("/").split("/")
            if len(parts) == 1 and body.get("code"):
                jobs.jobs.setdefault("refused", {"starts": 0})["starts"] += 1
                self.send_response(body["code"])
                self.send_header("Location", body.get("location", ""))
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif len(parts) == 1:
                key = self.headers["Idempotency-Key"]
                job = jobs.jobs.setdefault(key, {"status": "running", "body": body, "starts": 0})
                job["starts"] += 1
                job["callback"] = self.headers.get("Windlass-Callback")
                job["secret"] = self.headers.get("Windlass-Secret")
                jobs.save()
                if body.get("drop"):
                    # The job is there, but nobody hears of it.
                    self.connection.close()
                    return
                self.answer({"id": key})
            else:
                jobs.jobs[parts[1]] |= body
                jobs.save()
                self.answer({})

        def do_GET(self):
            parts = self.path.strip("/").split("/")
            if len(parts) == 1:
                self.answer(jobs.jobs)
            elif jobs.jobs.get(parts[1], {"code": 404}).get("code"):
                self.send_error(jobs.jobs.get(parts[1], {"code": 404})["code"])
            else:
                self.answer(jobs.jobs[parts[1]])

        def do_DELETE(self):
            with jobs.lock:
                jobs.jobs[self.path.strip("/").split("/")[1]]["status"] = "cancelled"
                jobs.save()
            self.answer({})

        def answer(self, value):
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_said):
            return

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


class JobServer:
    """The process, as a test sees it."""

    def __init__(self, folder, port):
        self.path = folder / "jobs.json"
        self.url = f"http://127.0.0.1:{port}"
        self._port = port
        self._process = None

    def start(self):
        command = [
            sys.executable,
            "-m",
            "tests.external.job_server",
            str(self._port),
            str(self.path),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment)
        deadline = time.monotonic() + 10
        while True:
            try:
                self.jobs()
                return self
            except OSError:
                assert time.monotonic() < deadline, "the job server did not start"
                time.sleep(0.02)

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def jobs(self):
        with urllib.request.urlopen(f"{self.url}/jobs", timeout=5) as response:
            return json.load(response)

    def change(self, job, **facts):
        """Have a job be as a test wants it."""
        request = urllib.request.Request(
            f"{self.url}/jobs/{job}", data=json.dumps(facts).encode(), method="POST"
        )
        urllib.request.urlopen(request, timeout=5).close()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
