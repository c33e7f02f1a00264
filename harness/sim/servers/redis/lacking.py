"""Names of the commands that Redis 7.0.15 and its Sentinel have and the simulated ones lack.

Source: the command COMMAND of redis-server 7.0.15. A subcommand follows its command, as in ``object|help``.
"""

from __future__ import annotations

from typing import Final

SERVER: Final = frozenset(
    b"""
    acl asking bitcount bitfield bitfield_ro bitop bitpos blmpop bzmpop bzpopmax bzpopmin client|caching
    client|getredir client|help client|pause client|trackinginfo client|unblock client|unpause cluster
    command|getkeys command|getkeysandflags command|help config|help copy debug dump failover fcall fcall_ro
    function geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch
    geosearchstore getbit hincrbyfloat hrandfield hscan latency lcs linsert lmpop lolwut lpos memory migrate module
    monitor move object|help pfadd pfcount pfdebug pfmerge pfselftest pubsub|help pubsub|shardchannels
    pubsub|shardnumsub readonly readwrite restore restore-asking script|debug script|help sdiff sdiffstore setbit
    shutdown sinter sintercard sinterstore slowlog smove sort sort_ro spop spublish srandmember sscan ssubscribe
    sunion sunionstore sunsubscribe swapdb xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread
    xreadgroup xrevrange xsetid xtrim zdiff zdiffstore zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax
    zpopmin zrandmember zrangebylex zrangestore zremrangebylex zrevrangebylex zrevrangebyscore zscan zunion
    zunionstore
    """.split()
)
SENTINEL: Final = frozenset(
    b"""
    acl client|caching client|getredir client|help client|pause client|trackinginfo client|unblock client|unpause
    command|getkeys command|getkeysandflags command|help sentinel|config sentinel|debug sentinel|flushconfig
    sentinel|help sentinel|info-cache sentinel|monitor sentinel|pending-scripts sentinel|remove sentinel|reset
    sentinel|set sentinel|simulate-failure shutdown
    """.split()
)
