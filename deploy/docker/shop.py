"""A small app for the Compose file: put your own in its place."""

from windlass import App, context

# The database is that of $WINDLASS_DATABASE_URL.
app = App()


@app.task(retries=3, backoff="2s", timeout="30s")
def send_mail(to: str, subject: str = "hello") -> None:
    print(f"{to}: {subject} (task {context().id})")


@app.cron("* * * * *", timeout="10s")
def every_minute() -> None:
    send_mail.enqueue("someone@shop.example", subject="a minute has passed")
