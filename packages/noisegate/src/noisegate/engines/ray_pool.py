"""The workers of one run on a Ray cluster: hired for its first round, kept for all others, and gone behind it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from noisegate.engines.worker import Worker


@dataclass(kw_only=True, eq=False)
class Pool:
    """The workers that are hired; one that is dismissed is never asked again."""

    workers: int  # how many there are at most, of one core each
    wait_seconds: float  # how long a round waits for its first one
    actors: list[Any] = field(default_factory=list)  # Ray's handles of them
    turn: Any = None  # whose parts they hold

    def hire(self) -> Any:
        """Returns one more worker, which begins as soon as the cluster has a core for it."""
        import ray

        self.actors.append(ray.remote(Worker).options(num_cpus=1).remote())
        return self.actors[-1]

    def dismiss(self, actor: Any) -> None:
        """Ends a worker, whether it lives or not."""
        import ray

        self.actors.remove(actor)
        with suppress(Exception):  # it is gone, or nobody can reach it: nobody asks it any more
            ray.kill(actor)

    def close(self) -> None:
        """Ends all workers."""
        for actor in list(self.actors):
            self.dismiss(actor)
