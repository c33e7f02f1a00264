package io.lockharness;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;

/** Redisson's RLock, without a lease time, so that its watchdog renews it; with the ttl as its lease if {@code lease}. */
class RedissonLocks implements Locks {
    /** How much shorter than requested a wait may be: Redisson measures it in whole milliseconds. */
    private static final long ROUNDED_MS = 5;

    /** The lease that means: renewed by the watchdog. */
    private static final long WATCHDOG = -1;

    final RedissonClient client;
    final long leaseMs;
    private final int answerMs;

    RedissonLocks(Servers servers) throws Refused {
        client = RedissonClients.connect(servers);
        leaseMs = servers.isSet("lease") ? servers.ttlMs() : WATCHDOG;
        answerMs = servers.answerMs();
    }

    static Locks open(Servers servers) throws Refused {
        return new RedissonLocks(servers);
    }

    @Override
    public final Grant acquire(String key, long waitMs) throws Refused, Unknown, InterruptedException {
        try {
            return take(key, waitMs);
        } catch (RedisException error) {
            RedissonErrors.judge(error);
            throw error;
        }
    }

    /**
     * {@code tryLock} returns false if another client has the lock. It also returns false if the second or a later
     * request of the call was not answered, which it only logs (RedissonLock.tryLock, catch of
     * RedisResponseTimeoutException). In that case it returns before the wait is over, or an answer's time-out after
     * it, and the outcome is unknown.
     */
    Grant take(String key, long waitMs) throws Unknown, InterruptedException {
        long began = System.nanoTime();
        if (lock(key).tryLock(waitMs, leaseMs, TimeUnit.MILLISECONDS)) {
            return Grant.PLAIN;
        }
        long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        if (took < waitMs - ROUNDED_MS || took > waitMs + answerMs - ROUNDED_MS) {
            throw new Unknown("false after " + took + " ms of " + waitMs + ": an answer was missing");
        }
        return null;
    }

    RLock lock(String key) {
        return client.getLock(key);
    }

    @Override
    public final void release(String key) throws Refused, Unknown {
        try {
            lock(key).unlock();
        } catch (IllegalMonitorStateException error) {
            throw new Refused("not the holder");
        } catch (RedisException error) {
            RedissonErrors.judge(error);
        }
    }

    @Override
    public final boolean stillValid(String key) {
        try {
            return lock(key).isHeldByCurrentThread();
        } catch (RedisException error) {
            return false;
        }
    }

    @Override
    public final void close() {
        client.shutdown();
    }
}
