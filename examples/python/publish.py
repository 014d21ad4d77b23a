#!/usr/bin/env python3
"""Places an order and publishes the event, in one transaction: publish.py URL ORDER TOTAL

Needs examples/shop.sql, and psycopg 3 (Debian: python3-psycopg).
"""

import sys

import psycopg
from psycopg.types.json import Jsonb


def place_order(db, order, total):
    with db.transaction():  # the order and its event: both, or neither
        db.execute("insert into orders (id, total) values (%s, %s)", (order, total))
        event = {"order": order, "total": total}
        return db.execute(
            "select baton.publish('order_events', 'order.placed', %s, 'order', %s)", (Jsonb(event), order)
        ).fetchone()[0]


if __name__ == "__main__":
    with psycopg.connect(sys.argv[1], autocommit=True) as db:
        print("event", place_order(db, int(sys.argv[2]), int(sys.argv[3])))
