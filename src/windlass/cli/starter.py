"""Background tasks of this project. Try it at once: python tasks.py

A task is a plain function with a decorator. Enqueueing it writes a row into the database. Later a
worker calls the function on its own machine, and again if it fails.
"""

from windlass import App

# A file in this folder. For a server, write App("postgresql://user@host/name") or mysql://..., and
# run `windlass migrate --app tasks:app` once.
app = App("sqlite:///tasks.db")


# Arguments are checked against the annotations when the task is enqueued. If the mail server does
# not answer, the task is retried up to five times: after 2 s, 4 s, 8 s and so on.
@app.task(retries=5, backoff="2s", timeout="30s")
async def send_mail(to: str, subject: str) -> None:
    print(f"to {to}: {subject}")


# The result is kept for a day: ref.result() waits for it.
@app.task(timeout="10s")
def add_up(prices: list[int]) -> int:
    return sum(prices)


# Runs every night at three, once, however many workers there are.
@app.cron("0 3 * * *", tz="UTC", timeout="1h")
def nightly_report() -> None:
    print("good night")


if __name__ == "__main__":
    send_mail.enqueue("ada@example.com", subject="welcome")
    # With a key there is only one such task, however often this line runs.
    send_mail.using(key="reminder", delay="5m").enqueue("ada@example.com", "how do you like it?")
    bill = add_up.enqueue([5, 7])

    # Run what is due, here and now. In production a worker does this: windlass worker tasks:app
    app.drain()
    print(f"the bill is {bill.result()}; the reminder is due in five minutes")
