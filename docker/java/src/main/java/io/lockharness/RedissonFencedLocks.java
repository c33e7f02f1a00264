package io.lockharness;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;

/**
 * Redisson's RFencedLock, renewed by the watchdog; the fence is the result of {@code tryLockAndGetToken}, or of {@code
 * tryLock} and then {@code getToken} with the option get_token.
 */
final class RedissonFencedLocks extends RedissonLocks {
    private final boolean getsToken;

    private RedissonFencedLocks(Servers servers) throws Refused {
        super(servers);
        getsToken = servers.isSet("get_token");
    }

    static Locks open(Servers servers) throws Refused {
        return new RedissonFencedLocks(servers);
    }

    @Override
    Grant take(String key, long waitMs) throws Unknown, InterruptedException {
        if (getsToken) {
            return super.take(key, waitMs) == null ? null : Grant.fenced(lock(key).getToken());
        }
        Long token = lock(key).tryLockAndGetToken(waitMs, leaseMs, TimeUnit.MILLISECONDS);
        return token == null ? null : Grant.fenced(token);
    }

    @Override
    RFencedLock lock(String key) {
        return client.getFencedLock(key);
    }
}
