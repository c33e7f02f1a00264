package io.lockharness;

/**
 * The result of a successful acquire.
 *
 * @param fence a number that grows with each grant of the key, null if the lock has none
 * @param validFor for how many seconds the lock is certainly held, null if the lock does not tell
 */
record Grant(Long fence, Double validFor) {
    static final Grant PLAIN = new Grant(null, null);

    static Grant fenced(long fence) {
        return new Grant(fence, null);
    }

    static Grant validFor(double seconds) {
        return new Grant(null, seconds);
    }
}
