package io.lockharness;

/**
 * What an acquire got.
 *
 * @param fence a number that grows with each grant of the key, null where the lock has none
 */
record Grant(Long fence) {
    static final Grant PLAIN = new Grant(null);
}
