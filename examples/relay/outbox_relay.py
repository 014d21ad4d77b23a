#!/usr/bin/env python3
"""A relay in Python: reads an outbox as a member of a consumer group and posts each event to a URL.

    outbox_relay.py --db "dbname=shop" --group billing --url http://localhost:8080/events

Start as many as you like: they share the work, order holds per key, and what a dead one held goes to the others. Each
event is delivered at least once; the receiver recognises a repetition by the header webhook-id. An event is settled only
after the receiver has said 2xx. Without --url the events are printed, one JSON object per line.

`baton relay` does this and much more; here one sees how little it takes.
"""

import argparse
import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request

import psycopg
from psycopg.rows import dict_row

stopping = False


def stop(*_):
    global stopping
    stopping = True


class Rejected(Exception):
    """The receiver will never take it."""


def deliver(event, url):
    """Send one event; returns when the receiver has it."""
    message = {"id": str(event["event_id"]), "type": event["event_type"], "key": event["partition_key"] or event["aggregate_id"],
               "time": event["occurred_at"].isoformat(), "payload": event["payload"]}
    body = json.dumps(message)
    if not url:
        print(body, flush=True)
        return
    request = urllib.request.Request(url, body.encode(), {"content-type": "application/json", "webhook-id": message["id"]})
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as error:
        if error.code in (400, 404, 410, 413, 422):
            raise Rejected(f"{error.code} {error.reason}") from error
        raise


def relay_batch(db, group, consumer, url):
    """Lease a batch and send it; returns how many events there were."""
    lease = 30
    events = db.execute("select * from baton.poll_outbox(%s, %s, 50, %s)", (group, consumer, lease)).fetchall()
    left = list(events)
    while left:
        event = left[0]
        token = event["lease_token"]
        if stopping:  # what was not begun goes to the others at once
            db.execute("select baton.release_lease(%s, %s, %s)", (group, consumer, token))
            break
        # A slow receiver must not cost us the lease; when it is lost all the same, this raises and nothing is sent.
        db.execute("select baton.extend_lease(%s, %s, %s, %s)", (group, consumer, lease, token))
        try:
            deliver(event, url)
        except (OSError, Rejected) as error:
            print(f"event {event['event_id']}: {error}", file=sys.stderr)
            parked = db.execute("select id from baton.fail_events(%s, %s, %s, %s, %s, %s)",
                                (group, consumer, [event["id"]], str(error), isinstance(error, Rejected), token)).fetchall()
            aside = {row["id"] for row in parked}  # and the later events of its key, so that none overtakes it
            left = [other for other in left if other["id"] not in aside]
            continue
        db.execute("select baton.commit_offset(%s, %s, %s, %s)", (group, consumer, event["id"], token))
        left.pop(0)
    return len(events)


def run(db, group, consumer, url):
    outbox = db.execute("select outbox from baton.describe_group(%s)", (group,)).fetchone()["outbox"]
    bell = db.execute("select baton.doorbell_value(%s) as bell", (outbox,)).fetchone()["bell"]
    while not stopping:
        try:
            if relay_batch(db, group, consumer, url) == 0:
                # Sleeps in the server until something was committed since the last look, a second at most: for retries.
                bell = db.execute("call baton.wait_for_events(%s, %s, '1 second')", (outbox, bell)).fetchone()["since"]
        except psycopg.Error as error:
            if error.sqlstate != "BT001":
                raise
            print(f"lost the lease: {error}", file=sys.stderr)


def main():
    options = argparse.ArgumentParser(description="post the events of a consumer group to a URL")
    options.add_argument("--db", required=True)
    options.add_argument("--group", required=True)
    options.add_argument("--consumer", default=f"{socket.gethostname()}-{os.getpid()}")
    options.add_argument("--url")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with psycopg.connect(given.db, autocommit=True, row_factory=dict_row) as db:
        run(db, given.group, given.consumer, given.url)


if __name__ == "__main__":
    main()
