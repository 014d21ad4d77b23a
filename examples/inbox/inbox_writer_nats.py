#!/usr/bin/env python3
"""Writes the messages of a JetStream stream into an inbox, and acknowledges each only after the commit.

    inbox_writer_nats.py --db "dbname=shop" --inbox payments --url nats://localhost:4222 --stream PAYMENTS

A message that is not acknowledged comes again, and the inbox recognises the repetition by its id: the header Nats-Msg-Id, else
the message's place in the stream. What is no JSON is kept as a dead letter with its bytes. Several writers with the same
--durable share the work; one alone keeps the order of the stream.

`baton relay` does this and much more; here one sees how little it takes.

Needs: select baton.create_inbox('payments');  and nats-py (pip install nats-py)
"""

import argparse
import asyncio
import base64
import json
import signal
import sys

import nats
import psycopg
from nats.errors import TimeoutError as NothingCame
from nats.js.api import AckPolicy, ConsumerConfig

# What baton's sinks say of an event in headers, and what the inbox calls it.
SAID_IN_HEADERS = {"event-type": "event_type", "aggregate-id": "aggregate_id", "tenant-id": "tenant_id", "correlation-id": "correlation_id",
                   "causation-id": "causation_id", "idempotency-key": "idempotency_key", "schema-version": "schema_version"}


def without_body(message):
    """What is known of a message beside its body."""
    headers = message.headers or {}
    place = message.metadata
    entry = {"event_id": headers.get("Nats-Msg-Id") or f"nats:{place.stream}/{place.sequence.stream}", "source": message.subject,
             "event_type": message.subject, "headers": headers}
    entry.update({field: headers[name] for name, field in SAID_IN_HEADERS.items() if name in headers})
    return entry


def as_dead_letter(message, error):
    return without_body(message) | {"payload_raw": base64.b64encode(message.data).decode(), "error": str(error)}


def as_entry(message):
    """The message as baton.receive_many() takes it."""
    try:
        return without_body(message) | {"payload": json.loads(message.data.decode())}
    except ValueError as error:
        return as_dead_letter(message, error)


async def store(db, inbox, entries):
    """Put messages into the inbox; returns after the commit."""
    await db.execute("select * from baton.receive_many(%s, %s::jsonb)", (inbox, json.dumps(entries)))


async def store_all(db, inbox, messages):
    try:
        await store(db, inbox, [as_entry(message) for message in messages])
    except psycopg.DataError:  # some message is one that the server cannot hold: all but that one, in order
        for message in messages:
            try:
                await store(db, inbox, [as_entry(message)])
            except psycopg.DataError as error:
                await store(db, inbox, [as_dead_letter(message, error)])


async def store_whatever_happens(given, db, messages, stopping):
    """Store a batch, over a new connection where the old one broke. Returns the connection; none when told to stop meanwhile."""
    while not stopping.is_set():
        try:
            if db is None or db.closed:
                db = await psycopg.AsyncConnection.connect(given.db, autocommit=True)
            await store_all(db, given.inbox, messages)
            return db
        except psycopg.Error as error:  # the messages stay in hand, and unacknowledged
            print(f"not stored: {error}", file=sys.stderr, flush=True)
            if db is not None:
                await db.close()
            try:
                await asyncio.wait_for(stopping.wait(), 0.5)
            except asyncio.TimeoutError:
                pass
    return None


async def run(given, stopping):
    broker = await nats.connect(given.url, max_reconnect_attempts=-1)
    config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=30, max_ack_pending=1000)
    consumer = await broker.jetstream().pull_subscribe(given.subject, durable=given.durable, stream=given.stream, config=config)
    db = None
    while not stopping.is_set():
        try:
            messages = await consumer.fetch(100, timeout=1)
        except NothingCame:
            continue
        db = await store_whatever_happens(given, db, messages, stopping)
        if db is not None:
            for message in messages:
                await message.ack()
    if db is not None:
        await db.close()
    await broker.flush()  # sends the last acknowledgements
    await broker.close()


async def main():
    options = argparse.ArgumentParser(description="write the messages of a JetStream stream into an inbox")
    options.add_argument("--db", required=True)
    options.add_argument("--inbox", default="payments")
    options.add_argument("--url", default="nats://localhost:4222")
    options.add_argument("--stream", required=True)
    options.add_argument("--subject", default=">", help="only messages with such a subject")
    options.add_argument("--durable", default="baton", help="name of the consumer, which remembers what was acknowledged")
    given = options.parse_args()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await run(given, stopping)


if __name__ == "__main__":
    asyncio.run(main())
