package io.lockharness;

import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;

/**
 * ShedLock's locks of one provider. ShedLock does not wait for a lock, so this class tries again every 50 ms. A lock is
 * held for at most the ttl (lockAtMostFor) and is released by unlock at once (lockAtLeastFor is 0).
 */
final class ShedLocks implements Locks {
    private static final long BETWEEN_MS = 50;

    private final LockProvider provider;
    private final int ttlMs;
    private final Runnable closing;
    private final Map<String, SimpleLock> held = new HashMap<>();

    ShedLocks(LockProvider provider, int ttlMs, Runnable closing) {
        this.provider = provider;
        this.ttlMs = ttlMs;
        this.closing = closing;
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

    private Grant take(String key) throws Refused, Unknown {
        long began = System.nanoTime();
        try {
            Optional<SimpleLock> lock = provider.lock(
                    new LockConfiguration(Instant.now(), key, Duration.ofMillis(ttlMs), Duration.ZERO));
            if (lock.isEmpty()) {
                return null;
            }
            held.put(key, lock.get());
            return Grant.validFor(ttlMs / 1000.0 - (System.nanoTime() - began) / 1e9);
        } catch (RuntimeException error) {
            SpringErrors.judge(error);
            throw error;
        }
    }

    /** ShedLock does not tell whether the lock was still held. */
    @Override
    public void release(String key) throws Refused, Unknown {
        SimpleLock lock = held.remove(key);
        if (lock == null) {
            throw new Refused("not the holder");
        }
        try {
            lock.unlock();
        } catch (RuntimeException error) {
            SpringErrors.judge(error);
        }
    }

    @Override
    public void close() {
        closing.run();
    }
}
