"""Ways to end, by name. No torch: a rank is one by its environment, and starts at once."""

import ctypes
import os
import resource
import shutil
import signal
import sys
import threading
from pathlib import Path

EVENTS = Path(os.environ.get("TRUEUP_EVENTS", "/nowhere"))


def chain():
    try:
        try:
            {}["corpus"]
        except KeyError as error:
            raise OSError("no such corpus") from error
    except OSError as error:
        raise RuntimeError("training failed") from error


def memory():
    bytearray(1 << 62)


def exit_code():
    sys.exit(3)


def at_once():
    os._exit(5)


def in_thread():
    def work():
        raise ValueError("in a thread")

    thread = threading.Thread(target=work, name="loader")
    thread.start()
    thread.join()
    print("went on")


def unprintable():
    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError("it cannot be said")

        __repr__ = __str__

    raise Unprintable


def own_hook():
    sys.excepthook = lambda kind, error, trace: print(f"mine: {error}")
    raise ValueError("through a hook of its own")


def crash():
    ctypes.string_at(0)


def torn():
    """What a kill in the middle of a write leaves."""
    (file,) = EVENTS.glob("events-*.jsonl")
    with file.open("a") as events:
        events.write('{"t": 1.0, "kind": "lay')
    os.kill(os.getpid(), signal.SIGKILL)


def no_folder():
    shutil.rmtree(EVENTS)
    EVENTS.write_text("a file in the place of the folder")
    raise ValueError("not told")


def full():
    """No file may grow any more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
    for _ in range(200):
        threading.Thread(target=lambda: 1 / 0).start()
    print("went on")


def hang():
    os.write(1, b"hanging\n")  # in one piece, however Python buffers: two ranks write into one pipe
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()


globals()[sys.argv[1]]()
