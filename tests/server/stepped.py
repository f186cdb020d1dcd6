"""Private servers whose clock a test can step while they run."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

from tests.server.mariadb import MariaDB
from tests.server.postgresql import PostgreSQL
from tests.server.process import Daemon, ServerMissing

# Loaded before the C library. It shifts the real-time clock alone, by the seconds in a file, and
# waits that end at a moment of that clock end when they should. Monotonic clocks stay as they are.
SHIFT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long nothing = 0;
static const volatile long long *shift = &nothing;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_SHIFT");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(0, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) shift = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, at);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += *shift;
  return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  struct timespec moved = *until;
  /* A moment of a monotonic clock is small. */
  if (moved.tv_sec > 1000000000) moved.tv_sec -= *shift;
  return real(condition, mutex, &moved);
}
"""


class Stepped(Daemon):
    """A server with a clock of its own: that of the machine, and what a test adds to it."""

    def find(self) -> None:
        self.compiler = shutil.which("gcc") or shutil.which("cc")
        if self.compiler is None:
            raise ServerMissing("program 'gcc' not found; a server's clock cannot be stepped")
        super().find()

    def create(self) -> None:
        self._shift.write_bytes(struct.pack("q", 0))
        source = self.directory / "shift.c"
        source.write_text(SHIFT)
        command = [self.compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source, "-ldl"]
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        for path in (self._shift, self._library):
            path.chmod(0o644)
        super().create()

    def step(self, seconds: int) -> None:
        """Step the clock of the running server."""
        file = os.open(self._shift, os.O_RDWR)
        try:
            (now,) = struct.unpack("q", os.pread(file, 8, 0))
            os.pwrite(file, struct.pack("q", now + seconds), 0)
        finally:
            os.close(file)

    @property
    def _shift(self) -> Path:
        return self.directory / "shift"

    @property
    def _library(self) -> Path:
        return self.directory / "shift.so"

    def _as_account(self) -> dict[str, object]:
        options = super()._as_account()
        own = {"LD_PRELOAD": str(self._library), "CLOCK_SHIFT": str(self._shift)}
        usual = options["env"]
        assert isinstance(usual, dict)
        return options | {"env": usual | own}


class SteppedPostgreSQL(Stepped, PostgreSQL):
    """PostgreSQL with a clock that can be stepped."""


class SteppedMariaDB(Stepped, MariaDB):
    """MariaDB with a clock that can be stepped."""
