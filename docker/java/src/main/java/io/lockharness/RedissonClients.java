package io.lockharness;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/**
 * Opens Redisson clients: of one server, through sentinels, or of one of several servers. Redisson's default times are
 * long (answers 3 s, connections 10 s, 4 more tries, 1 to 2 s between them); here they are 1 s, 3 s, 1 more try, 0.2 s,
 * unless the options answer_timeout and retries say otherwise.
 * Pools and threads are small, because only one thread makes requests. All other settings are the defaults.
 */
final class RedissonClients {
    /** For setRetryInterval, which is setRetryDelay with a ConstantDelay; old releases do not have that. */
    private static final int BETWEEN_MS = 200;
    private static final int CONNECT_MS = 3000;
    private static final int THREADS = 2;
    private static final int CONNECTIONS = 4;

    private RedissonClients() {}

    /** Connects a client to one server, or to the primary that the sentinels name. */
    static RedissonClient connect(Servers servers) throws Refused {
        Config config = config(servers.ttlMs());
        if (servers.kind().equals("redis-sentinel")) {
            sentinels(config.useSentinelServers(), servers);
        } else {
            single(config.useSingleServer(), servers.addresses().get(0), servers.answerMs(), servers.retries());
        }
        try {
            return Redisson.create(config);
        } catch (RedisException error) { // no lock was requested yet
            throw new Refused(error);
        }
    }

    /** Opens a client of one of several servers, which waits {@code answerMs} for an answer and repeats no request. */
    static RedissonClient oneOf(Config config, String address, int answerMs) {
        single(config.useSingleServer(), address, answerMs, 0);
        return Redisson.create(config);
    }

    /** Locks do not use the codec; the default one of some old releases does not start on Java 17. */
    static Config config(int ttlMs) {
        return new Config()
                .setLockWatchdogTimeout(ttlMs)
                .setThreads(THREADS)
                .setNettyThreads(THREADS)
                .setCodec(StringCodec.INSTANCE);
    }

    private static void single(SingleServerConfig server, String address, int answerMs, int tries) {
        server.setAddress("redis://" + address)
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(CONNECTIONS)
                .setSubscriptionConnectionPoolSize(CONNECTIONS)
                .setTimeout(answerMs)
                .setConnectTimeout(connectMs(answerMs))
                .setRetryAttempts(tries)
                .setRetryInterval(BETWEEN_MS);
    }

    /**
     * Redisson also limits its start by the time for connections. At the start every client and server of a run starts,
     * so the machine is busy, and a short answer_timeout, which is for answers, would end the run.
     */
    private static int connectMs(int answerMs) {
        return Math.max(answerMs, CONNECT_MS);
    }

    private static void sentinels(SentinelServersConfig config, Servers servers) {
        servers.addresses().forEach(address -> config.addSentinelAddress("redis://" + address));
        config.setMasterName(servers.service())
                .setMasterConnectionMinimumIdleSize(1)
                .setMasterConnectionPoolSize(CONNECTIONS)
                .setSlaveConnectionMinimumIdleSize(1)
                .setSlaveConnectionPoolSize(CONNECTIONS)
                .setSubscriptionConnectionPoolSize(CONNECTIONS)
                .setTimeout(servers.answerMs())
                .setConnectTimeout(connectMs(servers.answerMs()))
                .setRetryAttempts(servers.retries())
                .setRetryInterval(BETWEEN_MS);
    }
}
