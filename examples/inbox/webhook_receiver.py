#!/usr/bin/env python3
"""Receives webhooks into an inbox: signed by Standard Webhooks, answered with 2xx only after the commit.

    WEBHOOK_SECRET=whsec_... webhook_receiver.py --db "dbname=shop" --inbox payments --port 8080

A sender that gets no 2xx sends again; the inbox recognises the repetition by the header webhook-id. A body that is no JSON
is kept as a dead letter with its bytes, and answered with 2xx: sending it again would not help. Listens on loopback;
put a proxy with TLS before it.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg

LARGEST_BODY = 1 << 20
TOLERANCE = 300  # seconds that a timestamp may be off


def is_signed(secret, headers, body):
    """True when one of the signatures is ours and the timestamp is of today."""
    sent_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_id or not sent_at.isdigit() or abs(time.time() - int(sent_at)) > TOLERANCE:
        return False
    content = f"{sent_id}.{sent_at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(secret, content, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(given.encode(), expected.encode()) for given in headers.get("webhook-signature", "").split(" "))


def store(db_name, inbox, headers, body):
    """Put the message into the inbox and commit; returns new or duplicate."""
    sent_id = headers["webhook-id"]
    kept = json.dumps({name.lower(): value for name, value in headers.items()
                       if not name.lower().startswith("webhook-signature")})
    with psycopg.connect(db_name) as db:  # commits at its end; a busy receiver would use a pool
        try:
            message = json.loads(body.decode())  # as text: json.loads(bytes) would guess other encodings
            event_type = message.get("type", "webhook") if isinstance(message, dict) else "webhook"
            query = "select baton.receive(%s, %s, %s, %s::jsonb, source => 'webhook', headers => %s::jsonb)"
            with db.transaction():
                return db.execute(query, (inbox, sent_id, event_type, body.decode(), kept)).fetchone()[0]
        except (ValueError, psycopg.DataError) as error:
            query = "select baton.receive_malformed(%s, %s, %s, %s, 'webhook', %s::jsonb)"
            return db.execute(query, (inbox, sent_id, body, str(error), kept)).fetchone()[0]


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30  # for a sender that stops in the middle

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdigit():
            return self.answer(411, "a length is needed")
        if int(length) > LARGEST_BODY:
            return self.answer(413, "too large")
        body = self.rfile.read(int(length))
        if not is_signed(self.server.secret, self.headers, body):
            return self.answer(401, "not signed by one we know")
        try:
            outcome = store(self.server.db, self.server.inbox, self.headers, body)
        except psycopg.Error as error:
            print(f"webhook {self.headers['webhook-id']}: {error}", file=sys.stderr)
            return self.answer(503, "come again")
        self.answer(200, outcome)

    def answer(self, status, words):
        body = (words + "\n").encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if status in (411, 413):  # what follows on this connection is a body that was not read
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    options = argparse.ArgumentParser(description="receive webhooks into an inbox")
    options.add_argument("--db", required=True)
    options.add_argument("--inbox", default="payments")
    options.add_argument("--port", type=int, default=8080)
    given = options.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Receiver)
    server.daemon_threads = False  # a request that has begun is answered
    server.db, server.inbox = given.db, given.inbox
    server.secret = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"), validate=True)
    if len(server.secret) < 24:
        sys.exit("WEBHOOK_SECRET is too short: take whsec_ and 24 to 64 random bytes in base64")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()
    server.server_close()


if __name__ == "__main__":
    main()
