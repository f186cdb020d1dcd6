"""`python -m examples.control`: one script twice; the first time it is killed in its third step."""

import subprocess
import sys
import time

from examples.control import load

MONTH = "2026-11"


def main() -> None:
    """Run the script until it is through, as cron would."""
    command = [sys.executable, "-m", "examples.control.load", MONTH]
    first = subprocess.run(command, check=False)
    print(f"the first try ended with {first.returncode}: it was killed")

    # Nobody may start it while its lease lasts: the killed one could still be alive.
    second = subprocess.run(command, check=False, capture_output=True, text=True)
    print(f"at once after it: {second.stderr.strip() or 'it ran'}")
    while second.returncode:
        time.sleep(0.2)
        second = subprocess.run(command, check=False, capture_output=True)
    print(f"what was done in all: {', '.join(load.journal.read_text().split())}")

    run = load.app.control.get("load-recordings", MONTH)
    assert run is not None
    print(f"it took {run.tries} tries")
    load.app.close()


if __name__ == "__main__":
    main()
