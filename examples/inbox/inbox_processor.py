#!/usr/bin/env python3
"""Handles the messages of an inbox, each exactly once.

    inbox_processor.py --db "dbname=shop" --inbox payments

The handler's writes and the note that the message is done are one transaction: it cannot have an effect twice, whatever
crashes. Start as many as you like.

Needs: create table orders (id bigint primary key, total bigint, paid boolean not null default false);
       select baton.create_inbox('payments');
"""

import argparse
import os
import signal
import socket
import sys
import time

import psycopg
from psycopg.rows import dict_row

stopping = False


def stop(*_):
    global stopping
    stopping = True


class Reject(Exception):
    """The message can never be handled."""


def handle(db, message):
    """Do the work, in the transaction that is open. Raise Reject for never, anything else for later."""
    if message["event_type"] != "payment.received":
        raise Reject(f"what is a {message['event_type']}?")
    payment = message["payload"]
    if "order" not in payment or "amount" not in payment:
        raise Reject("a payment names its order and its amount")
    paid = db.execute("update orders set paid = true where id = %s and total <= %s", (payment["order"], payment["amount"]))
    if paid.rowcount == 0:
        raise LookupError(f"there is no order {payment['order']} of that amount yet")


def process(db, inbox, message):
    token = message["lease_token"]
    try:
        with db.transaction():
            handle(db, message)
            db.execute("select baton.complete(%s, %s::text, %s)", (inbox, message["event_id"], token))
    except Exception as error:
        if isinstance(error, psycopg.OperationalError) and db.broken:
            raise
        if isinstance(error, psycopg.Error) and error.sqlstate == "BT001":
            print(f"{message['event_id']}: {error}", file=sys.stderr)  # somebody else has it; our work is undone
            return
        print(f"{message['event_id']}: {error}", file=sys.stderr)
        db.execute("select baton.fail(%s, %s::text, %s, %s, %s)",
                   (inbox, message["event_id"], str(error), isinstance(error, Reject), token))


def run(db, inbox, worker):
    while not stopping:
        messages = db.execute("select * from baton.claim_inbox(%s, %s, 20, 30)", (inbox, worker)).fetchall()
        for place, message in enumerate(messages):
            if stopping:  # what was not begun goes to the others at once, and counts as no attempt
                rest = [other["event_id"] for other in messages[place:]]
                db.execute("select baton.release_inbox(%s, %s, %s)", (inbox, rest, message["lease_token"]))
                break
            process(db, inbox, message)
        if not messages and not stopping:
            time.sleep(0.2)


def main():
    options = argparse.ArgumentParser(description="handle the messages of an inbox")
    options.add_argument("--db", required=True)
    options.add_argument("--inbox", default="payments")
    options.add_argument("--worker", default=f"{socket.gethostname()}-{os.getpid()}")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with psycopg.connect(given.db, autocommit=True, row_factory=dict_row) as db:
        run(db, given.inbox, given.worker)


if __name__ == "__main__":
    main()
