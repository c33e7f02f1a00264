package io.lockharness;

import org.springframework.data.redis.connection.RedisConnection;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;

/**
 * Opens Spring Data's connections to Redis, with Jedis: to one server, or to the primary that the sentinels name. Jedis
 * waits 2 s for an answer by default; here it is the option answer_timeout. All other settings are the defaults.
 */
final class SpringRedisConnections {
    private SpringRedisConnections() {}

    /** Opens the connections, and makes sure that a server answers. */
    @SuppressWarnings("deprecation") // old releases have no other way to name the server
    static JedisConnectionFactory open(Servers servers) throws Refused {
        JedisConnectionFactory connections = servers.kind().equals("redis-sentinel")
                ? new JedisConnectionFactory(sentinels(servers))
                : new JedisConnectionFactory();
        if (!servers.kind().equals("redis-sentinel")) {
            connections.setHostName(servers.host(0));
            connections.setPort(servers.port(0));
        }
        connections.setTimeout(servers.answerMs());
        connections.afterPropertiesSet();
        try {
            RedisConnection connection = connections.getConnection();
            connection.ping();
            connection.close();
        } catch (RuntimeException error) { // no lock was requested yet
            connections.destroy();
            throw new Refused(error);
        }
        return connections;
    }

    private static RedisSentinelConfiguration sentinels(Servers servers) {
        RedisSentinelConfiguration configuration = new RedisSentinelConfiguration().master(servers.service());
        for (int number = 0; number < servers.addresses().size(); number++) {
            configuration.sentinel(servers.host(number), servers.port(number));
        }
        return configuration;
    }
}
