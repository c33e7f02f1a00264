package io.lockharness;

import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;

/**
 * Locks of a LockRegistry of Spring Integration, which is asked for the lock at each call. With the option new_threads
 * each hold belongs to a thread of its own, as in a server that handles each request in another thread; otherwise one
 * thread makes all calls.
 */
final class SpringLocks implements Locks {
    /** A registry; its obtain returns different types in different releases. */
    interface Registry {
        Lock obtain(String key);
    }

    private final Registry registry;
    private final boolean newThreads;
    private final Runnable closing;
    private final Map<String, ExecutorService> threads = new HashMap<>();

    SpringLocks(Registry registry, Servers servers, Runnable closing) {
        this.registry = registry;
        this.newThreads = servers.isSet("new_threads");
        this.closing = closing;
    }

    @Override
    public Grant acquire(String key, long waitMs) throws Refused, Unknown, InterruptedException {
        if (!newThreads) {
            return take(key, waitMs);
        }
        ExecutorService thread = Executors.newSingleThreadExecutor();
        Grant grant = null;
        try {
            grant = in(thread, () -> take(key, waitMs));
        } finally {
            if (grant == null) {
                thread.shutdown();
            } else {
                threads.put(key, thread);
            }
        }
        return grant;
    }

    @Override
    public void release(String key) throws Refused, Unknown, InterruptedException {
        ExecutorService thread = threads.remove(key);
        if (thread == null) {
            giveBack(key);
            return;
        }
        try {
            in(thread, () -> {
                giveBack(key);
                return null;
            });
        } finally {
            thread.shutdown();
        }
    }

    private Grant take(String key, long waitMs) throws Refused, Unknown, InterruptedException {
        try {
            if (!registry.obtain(key).tryLock(waitMs, TimeUnit.MILLISECONDS)) {
                return null;
            }
            return Grant.PLAIN;
        } catch (RuntimeException error) {
            SpringErrors.judge(error);
            throw error;
        }
    }

    /** An unlock of a lock that is lost frees the registry's own lock and raises an error. */
    private void giveBack(String key) throws Refused, Unknown {
        try {
            registry.obtain(key).unlock();
        } catch (IllegalStateException | IllegalMonitorStateException | ConcurrentModificationException error) {
            throw new Refused(error);
        } catch (RuntimeException error) {
            SpringErrors.judge(error);
        }
    }

    private static <T> T in(ExecutorService thread, Callable<T> call) throws Refused, Unknown, InterruptedException {
        try {
            return thread.submit(call).get();
        } catch (ExecutionException error) {
            Throwable cause = error.getCause();
            if (cause instanceof Refused) {
                throw (Refused) cause;
            }
            throw cause instanceof Unknown ? (Unknown) cause : new Unknown(cause);
        }
    }

    @Override
    public void close() {
        closing.run();
    }
}
