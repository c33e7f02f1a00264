package io.lockharness;

/** The locks of one kind, each known by its key. All calls are made by one thread: these locks belong to a thread. */
interface Locks extends AutoCloseable {
    /**
     * Wait for the lock for at most {@code waitMs}; 0 is one try.
     *
     * @return null if somebody else has it
     */
    Grant acquire(String key, long waitMs) throws Refused, Unknown, InterruptedException;

    void release(String key) throws Refused, Unknown;

    /** Is it still held, as far as the library can tell? No answer is a no. */
    default boolean stillValid(String key) {
        throw new UnsupportedOperationException("this lock cannot be asked whether it is still held");
    }

    @Override
    void close();
}
