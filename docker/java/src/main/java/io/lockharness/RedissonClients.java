package io.lockharness;

import java.util.concurrent.TimeoutException;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.RedisTimeoutException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/**
 * Opens Redisson clients: of one server, through sentinels, or of one of several servers. Redisson's default times are
 * long (answers 3 s, connections 10 s, 4 more tries, 1 to 2 s between them); here they are 1 s, 1 s, 1 more try, 0.2 s,
 * unless the options answer_timeout and retries say otherwise.
 * Pools and threads are small, because only one thread makes requests. All other settings are the defaults.
 */
final class RedissonClients {
    /** For setRetryInterval, which is setRetryDelay with a ConstantDelay; old releases do not have that. */
    private static final int BETWEEN_MS = 200;
    /** At the start a machine is busy; a short answer_timeout is for answers. */
    private static final int CONNECT_MS = 3000;
    private static final long START_NS = 20_000_000_000L;
    private static final int THREADS = 2;
    private static final int CONNECTIONS = 4;

    private RedissonClients() {}

    /** Connects a client to one server, or to the primary that the sentinels name. */
    static RedissonClient connect(Servers servers) throws Refused {
        Config config = config(servers.ttlMs());
        if (servers.kind().equals("redis-sentinel")) {
            sentinels(config.useSentinelServers(), servers);
        } else {
            SingleServerConfig server = config.useSingleServer();
            single(server, servers.addresses().get(0), servers.answerMs(), servers.retries());
            server.setConnectTimeout(Math.max(servers.answerMs(), CONNECT_MS));
        }
        try {
            return create(config);
        } catch (RedisException error) { // no lock was requested yet
            throw new Refused(error);
        }
    }

    /** Opens a client of one of several servers, which waits {@code answerMs} for an answer and repeats no request. */
    static RedissonClient oneOf(Config config, String address, int answerMs) {
        single(config.useSingleServer(), address, answerMs, 0);
        return create(config);
    }

    /**
     * Creates a client, again if its server was reached and did not answer in time. Redisson waits no longer for an
     * answer while it connects than later, and at the start of a run this JVM is new and the machine is busy.
     */
    private static RedissonClient create(Config config) {
        long began = System.nanoTime();
        while (true) {
            try {
                return Redisson.create(config);
            } catch (RedisException error) {
                if (!isUnanswered(error) || System.nanoTime() - began > START_NS) {
                    throw error;
                }
            }
        }
    }

    private static boolean isUnanswered(Throwable error) {
        return error instanceof RedisTimeoutException
                || error instanceof TimeoutException
                || error.getCause() != null && isUnanswered(error.getCause());
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
                .setConnectTimeout(answerMs)
                .setRetryAttempts(tries)
                .setRetryInterval(BETWEEN_MS);
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
                .setConnectTimeout(servers.answerMs())
                .setRetryAttempts(servers.retries())
                .setRetryInterval(BETWEEN_MS);
    }
}
