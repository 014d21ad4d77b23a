#!/usr/bin/python3
"""nats-py for the tests. nats_client.py fetch: prints where it is. nats_client.py URL STREAM COMMAND...: works a stream.

It comes from PyPI once, into ${XDG_CACHE_HOME:-~/.cache}/baton, and from there without a network afterwards. Exits with 77 where it cannot be had.
"""
import asyncio
import fcntl
import os
import shutil
import subprocess
import sys

PACKAGE = "nats-py==2.9.0"
SKIPPED = 77


def fetch():
    """Return the folder with nats-py."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "baton")
    os.makedirs(cache, exist_ok=True)
    folder = os.path.join(cache, "nats-py-2.9.0")
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(folder, "ready")):
            shutil.rmtree(folder, ignore_errors=True)
            for command in ([sys.executable, "-m", "venv", folder],
                            [os.path.join(folder, "bin/python"), "-m", "pip", "install", "-q", "--target", os.path.join(folder, "packages"), PACKAGE]):
                ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
                if ran.returncode != 0:
                    print((ran.stdout + ran.stderr)[-2000:], file=sys.stderr)
                    sys.exit(SKIPPED)
            open(os.path.join(folder, "ready"), "w").close()
    return os.path.join(folder, "packages")


async def work(url, stream, commands):
    """make, unacknowledged CONSUMER, or SUBJECT [ID] BODY."""
    import nats
    import nats.js.errors
    broker = await nats.connect(url)
    jetstream = broker.jetstream()
    if commands == ["make"]:
        await jetstream.add_stream(name=stream, subjects=[stream.lower() + ".>"])
    elif commands[0] == "unacknowledged":
        try:
            info = await jetstream.consumer_info(stream, commands[1])
            print(info.num_ack_pending + info.num_pending)
        except nats.js.errors.NotFoundError:
            print("no consumer")
    else:
        subject, *identity, body = commands
        headers = {"Nats-Msg-Id": identity[0], "correlation-id": "c"} if identity else None
        await jetstream.publish(subject, body.encode(), headers=headers)
    await broker.close()


if __name__ == "__main__":
    if sys.argv[1] == "fetch":
        print(fetch())
    else:
        asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3:]))
