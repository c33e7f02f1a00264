package io.lockharness;

import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;

/** ShedLock's RedisLockProvider for Spring Data. The option safe_update is safeUpdate(true), which is not the default. */
final class ShedLockRedisLocks {
    private ShedLockRedisLocks() {}

    static Locks open(Servers servers) throws Refused {
        JedisConnectionFactory connections = SpringRedisConnections.open(servers);
        RedisLockProvider provider = new RedisLockProvider.Builder(connections)
                .safeUpdate(servers.isSet("safe_update"))
                .build();
        return new ShedLocks(provider, servers.ttlMs(), connections::destroy);
    }
}
