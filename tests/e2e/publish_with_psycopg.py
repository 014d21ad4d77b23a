"""Publish as a Python program does, with psycopg's own types for the parameters: publish_with_psycopg.py URL"""

import sys
import uuid

import psycopg
from psycopg.types.json import Json, Jsonb

order = uuid.UUID("00000000-0000-0000-0000-000000000007")
ids = ["o-1", 2, 70000, 5000000000, order, None]
payloads = [Jsonb({"n": 1}), Json({"n": 1}), '{"n": 1}']

with psycopg.connect(sys.argv[1]) as db:
    for prepare in (False, True):
        for aggregate_id in ids:
            for payload in payloads:
                db.execute(
                    "select baton.publish(%s, %s, %s, %s, %s, schema_version => %s, headers => %s)",
                    ("events", "order.placed", payload, "order", aggregate_id, 2, Jsonb({"from": "psycopg"})),
                    prepare=prepare,
                )
    for aggregate_id, event_type in db.execute(
        "select distinct aggregate_id, event_type || ' ' || (payload ->> 'n') || ' ' || schema_version || ' ' || (headers ->> 'from')"
        "  from events order by 1"
    ):
        print(aggregate_id, event_type)
    print(db.execute("select count(*) from events").fetchone()[0])
    try:
        db.execute("select baton.publish('events', 'order.placed', %s)", (Jsonb("x" * 2000000),))
    except psycopg.Error as error:
        print(error.sqlstate, error.diag.message_primary)
