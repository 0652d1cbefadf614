"""The Celery application that celery_smoke.py drives: a few tasks, the broker and backend by environment."""

import os
import pathlib
import time

from celery import Celery, Task

app = Celery("smoke", broker=os.environ["AMQP_URL"], backend=os.environ["SMOKE_BACKEND"])
app.conf.update(task_default_queue=os.environ["SMOKE_QUEUE"], broker_connection_retry_on_startup=True,
                task_track_started=True, worker_prefetch_multiplier=1, result_expires=3600,
                task_publish_retry=True, broker_transport_options={"confirm_publish": True})


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=5)
def third_time(self):
    """Fails twice, then tells how often it was tried."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task
def now():
    return time.time()


@app.task
def broken():
    raise ValueError("as it should")


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def survives(self: Task, folder):
    """The first run never ends: its worker is killed. The second says whether it was redelivered."""
    mark = pathlib.Path(folder) / "running"
    if not mark.exists():
        mark.write_text("1")
        time.sleep(3600)
    return bool(self.request.delivery_info.get("redelivered"))
