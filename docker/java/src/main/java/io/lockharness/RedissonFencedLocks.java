package io.lockharness;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;

/** Redisson's RFencedLock, renewed by the watchdog; the fence is the result of {@code tryLockAndGetToken}. */
final class RedissonFencedLocks extends RedissonLocks {
    private RedissonFencedLocks(RedissonClient client) {
        super(client);
    }

    static Locks open(Servers servers) throws Refused {
        return new RedissonFencedLocks(RedissonClients.connect(servers));
    }

    @Override
    Grant take(String key, long waitMs) {
        Long token = lock(key).tryLockAndGetToken(waitMs, TimeUnit.MILLISECONDS);
        return token == null ? null : Grant.fenced(token);
    }

    @Override
    RFencedLock lock(String key) {
        return client.getFencedLock(key);
    }
}
