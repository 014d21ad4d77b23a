#!/usr/bin/env python3
"""Applies the movements of accounts in their sequence, each exactly once, however they come in.

    inbox_processor_ordered.py --db "dbname=bank" --inbox movements

An ordered inbox offers only the next message of each aggregate, and to one worker at a time: so this is no longer than
the processor of a plain one. What it adds is a look at the gaps: an account whose next movement never came stands still
until it comes, or until somebody skips it with baton.advance_inbox_sequence().

Needs: create table accounts (id text primary key, balance bigint not null default 0, last_movement bigint not null default 0);
       select baton.create_inbox('movements');
       select baton.enable_inbox_ordering('movements', sequence_num_col => 'sequence_num');
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


def handle(db, message):
    """Move the money; the balance never goes below nothing, so the order matters."""
    balance = db.execute(
        "insert into accounts as a (id, balance, last_movement) values (%(id)s, %(by)s, %(n)s) "
        "on conflict (id) do update set balance = a.balance + excluded.balance, last_movement = excluded.last_movement "
        "returning balance",
        {"id": message["aggregate_id"], "by": message["payload"]["amount"], "n": message["sequence_num"]}).fetchone()["balance"]
    if balance < 0:
        raise ValueError(f"account {message['aggregate_id']} would be at {balance}")


def process(db, inbox, message):
    try:
        with db.transaction():
            handle(db, message)
            db.execute("select baton.complete(%s, %s::text, %s)", (inbox, message["event_id"], message["lease_token"]))
    except (psycopg.Error, ValueError, KeyError) as error:
        if db.broken:
            raise
        print(f"{message['event_id']}: {error}", file=sys.stderr)
        if getattr(error, "sqlstate", None) != "BT001":  # a failed message blocks its account until it succeeds or is skipped
            db.execute("select baton.fail(%s, %s::text, %s, lease_token => %s)",
                       (inbox, message["event_id"], str(error), message["lease_token"]))


def report_gaps(db, inbox):
    for gap in db.execute("select * from baton.inbox_ordering_gaps(%s) where gap_age_sec > 60", (inbox,)):
        print(f"account {gap['aggregate']} waits for movement {gap['expected']}, {gap['found']} is here", file=sys.stderr)


def run(db, inbox, worker):
    next_report = 0.0
    while not stopping:
        messages = db.execute("select * from baton.claim_inbox(%s, %s, 20, 30)", (inbox, worker)).fetchall()
        for place, message in enumerate(messages):
            if stopping:
                rest = [other["event_id"] for other in messages[place:]]
                db.execute("select baton.release_inbox(%s, %s, %s)", (inbox, rest, message["lease_token"]))
                break
            process(db, inbox, message)
        if not messages and not stopping:
            if time.monotonic() > next_report:
                report_gaps(db, inbox)
                next_report = time.monotonic() + 30
            time.sleep(0.2)


def main():
    options = argparse.ArgumentParser(description="apply messages in sequence")
    options.add_argument("--db", required=True)
    options.add_argument("--inbox", default="movements")
    options.add_argument("--worker", default=f"{socket.gethostname()}-{os.getpid()}")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with psycopg.connect(given.db, autocommit=True, row_factory=dict_row) as db:
        run(db, given.inbox, given.worker)


if __name__ == "__main__":
    main()
