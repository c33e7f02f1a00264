package io.lockharness;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;

/**
 * Redisson's RedissonMultiLock over one RLock per server, each with its own client, taken with a lease:
 * {@code tryLock(-1, ttl)}, again every 50 ms until the waiting time is over.
 */
final class RedissonMultiLocks implements Locks {
    private static final long BETWEEN_MS = 50;

    private final List<RedissonClient> clients;
    private final int ttlMs;
    /** For each key its grants, the newest first: the locks of a thread are reentrant. */
    private final Map<String, Deque<RedissonMultiLock>> held = new HashMap<>();

    private RedissonMultiLocks(List<RedissonClient> clients, int ttlMs) {
        this.clients = clients;
        this.ttlMs = ttlMs;
    }

    static Locks open(Servers servers) throws Refused {
        try {
            List<RedissonClient> clients = servers.addresses().stream()
                    .map(address -> RedissonClients.oneOf(
                            RedissonClients.config(servers.ttlMs()), address, servers.answerMs()))
                    .toList();
            return new RedissonMultiLocks(clients, servers.ttlMs());
        } catch (RedisException error) { // no lock was requested yet
            throw new Refused(error);
        }
    }

    @Override
    public Grant acquire(String key, long waitMs) throws Refused, Unknown, InterruptedException {
        long until = System.nanoTime() + waitMs * 1_000_000;
        while (true) {
            Grant grant = take(key);
            long leftMs = (until - System.nanoTime()) / 1_000_000;
            if (grant != null || leftMs <= 0) {
                return grant;
            }
            Thread.sleep(Math.min(BETWEEN_MS, leftMs));
        }
    }

    private Grant take(String key) throws Refused, Unknown, InterruptedException {
        long began = System.nanoTime();
        RedissonMultiLock lock = new RedissonMultiLock(
                clients.stream().map(client -> client.getLock(key)).toArray(RLock[]::new));
        try {
            if (!lock.tryLock(-1, ttlMs, TimeUnit.MILLISECONDS)) {
                return null;
            }
        } catch (RedisException error) {
            RedissonErrors.judge(error);
        }
        held.computeIfAbsent(key, any -> new ArrayDeque<>()).push(lock);
        return Grant.validFor(ttlMs / 1000.0 - (System.nanoTime() - began) / 1e9);
    }

    @Override
    public void release(String key) throws Refused, Unknown {
        RedissonMultiLock lock = held.getOrDefault(key, new ArrayDeque<>()).poll();
        if (lock == null) {
            throw new Refused("not the holder");
        }
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException error) {
            throw new Refused("not the holder");
        } catch (RedisException error) {
            RedissonErrors.judge(error);
        }
    }

    @Override
    public void close() {
        clients.forEach(RedissonClient::shutdown);
    }
}
