"""redis-py's client of a Redis Cluster, as locks on the kind ``redis-cluster`` get it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import redis
from redis.cluster import ClusterNode, RedisCluster

from .redis_answers import is_an_answer

if TYPE_CHECKING:
    from .base import Endpoints


class RedisClusterClient(RedisCluster):
    """redis-py's cluster client, which also counts the requests that were sent and never answered, for the reason that
    :class:`harness.lock_impls.redis_client.RedisClient` states. Unlike that one, it repeats a request on the node that
    owns the key's slot by then."""

    unanswered = 0

    def get_redis_connection(self, node: ClusterNode) -> redis.Redis:
        """Return the client of one node, whose answers are counted. RedisCluster reads all answers through it."""
        client = super().get_redis_connection(node)
        parse = client.parse_response
        if not isinstance(parse, partial):
            vars(client)["parse_response"] = partial(self._counted, parse)
        return client

    def _counted(self, parse: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return parse(*args, **options)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self.unanswered += not is_an_answer(error)
            raise

    def acknowledged(self, key: str, replicas: int, milliseconds: int) -> int:
        """Send WAIT to the node that has the key; see :meth:`harness.lock_impls.redis_client.RedisClient.acknowledged`.

        redis-py does not repeat a request to a chosen node."""
        node = self.get_node_from_key(key)  # type: ignore[no-untyped-call]
        number: int = self.wait(replicas, milliseconds, target_nodes=node)
        return number


def open_cluster(endpoints: Endpoints, **options: Any) -> RedisClusterClient:
    """Connect to the cluster of these nodes; ``options`` are redis-py's. Raises what redis-py raises if no node
    answers, or if no node knows an owner of every slot."""
    nodes = [ClusterNode(host, port) for host, port in endpoints.addresses]  # type: ignore[no-untyped-call]
    return RedisClusterClient(startup_nodes=nodes, **options)
