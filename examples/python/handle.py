#!/usr/bin/env python3
"""Handles the messages of the inbox "payments", each exactly once, until SIGTERM: handle.py URL

Needs examples/shop.sql, and psycopg 3 (Debian: python3-psycopg). Start as many as you like.
"""

import os
import signal
import socket
import sys
import threading

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

stopping = threading.Event()


class Reject(Exception):
    """The message can never be handled."""


def handle(db, message):
    """Do the work, in the transaction that is open."""
    if message["event_type"] != "payment.received":
        raise Reject(f"what is a {message['event_type']}?")
    payment = message["payload"]
    paid = db.execute(
        "update orders set paid = true where id = %s and total <= %s", (payment["order"], payment["amount"])
    )
    if paid.rowcount == 0:
        raise LookupError("no such order yet, or not enough")  # comes again later
    db.execute(
        "select baton.publish('order_events', 'order.paid', %s, 'order', %s)", (Jsonb(payment), payment["order"])
    )


def process(db, message):
    token = message["lease_token"]
    try:
        with db.transaction():  # the work and the note that it is done: both, or neither
            handle(db, message)
            db.execute("select baton.complete('payments', %s::text, %s)", (message["event_id"], token))
    except Exception as error:
        if db.broken:
            raise
        if getattr(error, "sqlstate", None) == "BT001":  # the lease is lost: somebody else has the message
            return
        db.execute(
            "select baton.fail('payments', %s::text, %s, %s, %s)",
            (message["event_id"], str(error), isinstance(error, Reject), token),
        )


def work(db, worker):
    while not stopping.is_set():
        messages = db.execute("select * from baton.claim_inbox('payments', %s, 20, 30)", (worker,)).fetchall()
        for message in messages:
            process(db, message)
        if not messages:
            stopping.wait(0.2)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    with psycopg.connect(sys.argv[1], autocommit=True, row_factory=dict_row) as db:
        work(db, f"{socket.gethostname()}-{os.getpid()}")
