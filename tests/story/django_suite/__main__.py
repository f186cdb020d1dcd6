"""`python -m tests.story.django_suite FOLDER`: runs the tests of tasks in Django's `tests`.

The last line that it writes is JSON: how many tests ran, and which did not pass.
"""

import json
import os
import sys
import unittest
from pathlib import Path

# What Django's tests ask of a backend in memory, and no backend with a database can have.
LEFT_OUT = {
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result": "changes the stored object",
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result_async": "the same",
    "test_immediate_backend.ImmediateBackendTransactionTestCase."
    "test_doesnt_wait_until_transaction_commit_by_default": "a task runs after the commit",
    "test_immediate_backend.ImmediateBackendTestCase.test_throws_keyboard_interrupt": (
        "the interrupt reaches the worker, not the one who enqueues"
    ),
    # What only a backend that stores nothing refuses.
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": "it can",
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": "it can",
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": "it can",
}
MODULES = ("test_tasks", "test_dummy_backend", "test_immediate_backend", "test_custom_backend")


def main(folder: str) -> None:
    sys.path.insert(0, folder)
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.story.django_suite.settings"
    # Some async tests look at the results of a backend in memory without awaiting that.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    import django

    django.setup()
    from django.tasks.backends import dummy, immediate
    from django.test.runner import DiscoverRunner

    from tests.story.django_suite.backend import RunningBackend, StoringBackend

    dummy.DummyBackend, immediate.ImmediateBackend = StoringBackend, RunningBackend
    runner = DiscoverRunner(verbosity=0, interactive=False)
    suite, left_out = unittest.TestSuite(), set(LEFT_OUT)
    for test in each_of(runner.build_suite([f"tasks.{name}" for name in MODULES])):
        # They need no database in memory, and one here.
        type(test).databases = {"default"}
        name = test.id().removeprefix("tasks.")
        if name in LEFT_OUT:
            left_out.remove(name)
        else:
            suite.addTest(test)
    # One that Django has renamed would run unseen.
    assert not left_out, left_out
    old = runner.setup_databases()
    try:
        result = runner.run_suite(suite)
    finally:
        end_sessions()
        runner.teardown_databases(old)
    problems = [str(test) for test, _ in (*result.failures, *result.errors)]
    skipped = [str(test) for test, _ in result.skipped]
    sys.stdout.write(json.dumps({"run": result.testsRun, "problems": problems, "skipped": skipped}))


def end_sessions():
    """Async tests that look at results without awaiting that leave connections on their threads."""
    from django.db import connection

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )


def each_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each_of(test)
        else:
            yield test


main(str(Path(sys.argv[1]).resolve()))
