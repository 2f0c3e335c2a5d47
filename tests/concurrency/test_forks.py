"""A process that forks, whatever its threads are doing: parent and child both go on, and neither loses a commit."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import head

ROOT = Path(__file__).parents[2]

WHILE_WRITING = """
import os, sys, threading
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import update

url = sys.argv[1]
versions, stop = VersionStore.open(url), threading.Event()

def write(name):
    n = 0
    while not stop.is_set() or n < 20:
        update(versions, f"{name}-{n}", n)
        n += 1

threads = [threading.Thread(target=write, args=(f"parent{n}",)) for n in range(2)]
[thread.start() for thread in threads]
try:
    for n in range(6):
        update(versions, f"main{n}", n)
        child = os.fork()
        if not child:
            own = versions if n % 2 else VersionStore.open(url)
            update(own, f"child{n}", n)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
finally:
    stop.set()
    [thread.join() for thread in threads]
"""


def test_children_write_whatever_the_parents_threads_did(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    command = [sys.executable, "-W", "ignore", "-c", WHILE_WRITING, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    versions = VersionStore.open(url)
    names = {str(entry.name) for entry in versions.list_entries(head(versions))}
    assert names >= {f"child{n}" for n in range(6)} | {f"main{n}" for n in range(6)}
    assert len(versions.list_log(head(versions), limit=100_000)) == len(names)
    versions.close()


WHILE_THE_PARENT_CLOSES = """
import os, sys
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import update

url = sys.argv[1]
versions = VersionStore.open(url)
update(versions, "before", 1)
(closed, close), (written, write) = os.pipe(), os.pipe()
child = os.fork()
if not child:
    own = VersionStore.open(url)
    update(own, "child", 1)
    os.write(write, b"x")
    os.read(closed, 1)
    update(own, "after", 1)
    os._exit(0)
os.read(written, 1)
update(versions, "parent", 1)
versions.close()
os.write(close, b"x")
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_outlives_the_database_of_its_parent(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    command = [sys.executable, "-c", WHILE_THE_PARENT_CLOSES, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    versions = VersionStore.open(url)
    names = {str(entry.name) for entry in versions.list_entries(head(versions))}
    assert names == {"before", "child", "parent", "after"}
    versions.close()


WHILE_AN_OBJECT_IS_LOOKED_FOR = """
import os, signal, sys, threading
from nessie_ops.store import Cache

cache, is_held, end = Cache(), threading.Event(), threading.Event()

def hold():
    with cache._lock:
        is_held.set()
        end.wait()

thread = threading.Thread(target=hold)
thread.start()
is_held.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    cache.get("a")
    os._exit(0)
status = os.waitpid(child, 0)[1]
end.set()
thread.join()
sys.exit(status)
"""


def test_a_child_does_not_wait_for_what_a_thread_of_the_parent_held() -> None:
    command = [sys.executable, "-W", "ignore", "-c", WHILE_AN_OBJECT_IS_LOOKED_FOR]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_store_that_is_closed_is_not_kept(tmp_path: Path) -> None:
    stores = []
    for n in range(3):
        versions = VersionStore.open(f"sqlite:///{tmp_path}/{n}.db")
        versions.close()
        stores.append(weakref.ref(versions.store._engine))
    del versions
    gc.collect()
    assert [store() for store in stores] == [None] * 3
