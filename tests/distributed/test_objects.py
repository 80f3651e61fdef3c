"""Objects between processes."""

from typing import Any

import dynajit.distributed as dist
from tests.support.ranks import Raised, on_ranks


def exchanged() -> dict[str, Any]:
    rank, size = dist.get_rank(), dist.get_world_size()
    own = {"rank": rank, "text": "x" * 1000 * rank}
    everywhere: list[Any] = [None] * size
    dist.all_gather_object(everywhere, own)
    at_one: list[Any] | None = [None] * size if rank == 1 else None
    dist.gather_object(own, at_one, dst=1)
    sent = [own, 1] if rank == 1 else [None, None]
    dist.broadcast_object_list(sent, src=1)
    part = [None]
    dist.scatter_object_list(part, [f"part {i}" for i in range(size)] if rank == 0 else None, src=0)
    received: list[Any] = [None, None]
    source = -1
    if rank == 0:
        dist.send_object_list([own, "x"], 1)
    if rank == 1:
        source = dist.recv_object_list(received)
    if rank == 1:
        dist.send_object_list([[]], 0)
    if rank == 0:
        received = [None]
        source = dist.recv_object_list(received, src=1)
    return {
        "everywhere": [item["rank"] for item in everywhere],
        "lengths": [len(item["text"]) for item in everywhere],
        "at one": at_one and [item["rank"] for item in at_one],
        "sent": (sent[0]["rank"], sent[1]),
        "part": part[0],
        "received": received,
        "source": source,
    }


def test_objects_of_any_size_arrive() -> None:
    (found,) = on_ranks([exchanged], 2)
    for rank, results in enumerate(found):
        assert not isinstance(results, Raised), results
        assert {
            "everywhere": [0, 1],
            "lengths": [0, 1000],
            "at one": [0, 1] if rank == 1 else None,
            "sent": (1, 1),
            "part": f"part {rank}",
            "received": [{"rank": 0, "text": ""}, "x"] if rank == 1 else [[]],
            "source": 1 - rank,
        } == results
