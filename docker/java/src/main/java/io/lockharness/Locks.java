package io.lockharness;

/** The locks of one kind, by key. All calls come from one thread, because these locks belong to a thread. */
interface Locks extends AutoCloseable {
    /**
     * Wait for the lock for at most {@code waitMs}; 0 is one try.
     *
     * @return null if another client has it
     */
    Grant acquire(String key, long waitMs) throws Refused, Unknown, InterruptedException;

    void release(String key) throws Refused, Unknown, InterruptedException;

    /** Tells whether the lock is still held, as far as the library knows; no answer counts as no. */
    default boolean stillValid(String key) {
        throw new UnsupportedOperationException("this lock cannot be asked whether it is still held");
    }

    @Override
    void close();
}
