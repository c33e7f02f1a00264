package io.lockharness;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import org.redisson.api.RLock;
import org.redisson.misc.CompletableFutureWrapper;

/** Forwards all calls to an RLock of one server and remembers their outcomes, which RedissonRedLock does not report. */
final class RedissonWatchedLock implements InvocationHandler {
    /** A server's answer; UNKNOWN means that none arrived. */
    enum Said {
        NOTHING,
        YES,
        NO,
        UNKNOWN
    }

    private final RLock lock;
    private volatile Said taken = Said.NOTHING;
    private volatile Said given = Said.NOTHING;

    RedissonWatchedLock(RLock lock) {
        this.lock = lock;
    }

    RLock asLock() {
        return (RLock) Proxy.newProxyInstance(RLock.class.getClassLoader(), new Class<?>[] {RLock.class}, this);
    }

    boolean asked() {
        return taken != Said.NOTHING;
    }

    /** The server's answer to the last release. */
    Said given() {
        return given;
    }

    /** Tells whether the last tryLock may have left a key: an unanswered request may be executed after its release. */
    boolean mayStay() {
        return given != Said.YES && (taken == Said.UNKNOWN || taken == Said.YES && given != Said.NO);
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        try {
            switch (method.getName()) {
                case "tryLock":
                    return tryLock(method, arguments);
                case "unlockAsync":
                    return unlockAsync((CompletionStage<?>) method.invoke(lock, arguments));
                default:
                    return method.invoke(lock, arguments);
            }
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    private Object tryLock(Method method, Object[] arguments) throws ReflectiveOperationException {
        given = Said.NOTHING;
        taken = Said.UNKNOWN;
        try {
            Object got = method.invoke(lock, arguments);
            taken = Boolean.TRUE.equals(got) ? Said.YES : Said.NO;
            return got;
        } catch (InvocationTargetException error) {
            taken = said(error.getCause());
            throw error;
        }
    }

    /** Returns a future that completes only after the outcome has been remembered. */
    private Object unlockAsync(CompletionStage<?> result) {
        return new CompletableFutureWrapper<>(
                result.whenComplete((nothing, error) -> given = error == null ? Said.YES : said(error)));
    }

    private static Said said(Throwable error) {
        Throwable cause = error instanceof CompletionException ? error.getCause() : error;
        return RedissonErrors.notDone(cause) || cause instanceof IllegalMonitorStateException ? Said.NO : Said.UNKNOWN;
    }
}
