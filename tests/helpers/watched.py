"""What a block of code does outside itself: files that it opens to write, places that it reads, connections, processes."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

ACTS = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate", "shutil.rmtree")

_seen: list[list[tuple[str, str]]] = []


def _hook(event: str, arguments: tuple) -> None:
    if not _seen:
        return
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        writes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        _seen[-1].append(("write" if writes else "read", os.fsdecode(arguments[0])))
    elif event in ACTS:
        _seen[-1].append((event, str(arguments)))
    elif event in CHANGES:
        after = arguments[2:] if event in ("os.chmod", "os.truncate") else arguments[1:]  # behind a mode or a length
        name, folders = os.fsdecode(arguments[0]), [one for one in after if isinstance(one, int) and one > 2]
        below = os.readlink(f"/proc/self/fd/{folders[-1]}") if folders and not os.path.isabs(name) else ""
        _seen[-1].append(("write", os.path.join(below, name)))


sys.addaudithook(_hook)


@contextlib.contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """(what, where) of all that the block does; a hook of Python sees it, and none can be removed."""
    _seen.append([])
    try:
        yield _seen[-1]
    finally:
        _seen.pop()


def outside(seen: list[tuple[str, str]], *own: Path) -> list[tuple[str, str]]:
    """What is no reading, and no writing of these files or below these folders."""
    places = {path.absolute() for path in own} | {Path(os.devnull)}
    changes = [(what, where) for what, where in seen if what != "read"]
    return [
        (what, where)
        for what, where in changes
        if what != "write" or not {Path(where).absolute(), *Path(where).absolute().parents} & places
    ]
