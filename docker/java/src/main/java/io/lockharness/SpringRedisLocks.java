package io.lockharness;

import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;

/** Spring Integration's RedisLockRegistry; its locks expire after the ttl, and are not renewed. */
final class SpringRedisLocks {
    private static final String REGISTRY = "locks";

    private SpringRedisLocks() {}

    static Locks open(Servers servers) throws Refused {
        JedisConnectionFactory connections = SpringRedisConnections.open(servers);
        RedisLockRegistry registry = new RedisLockRegistry(connections, REGISTRY, servers.ttlMs());
        return new SpringLocks(registry::obtain, servers, connections::destroy);
    }
}
