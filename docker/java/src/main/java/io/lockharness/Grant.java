package io.lockharness;

/**
 * The result of a successful acquire.
 *
 * @param fence a number that grows with each grant of the key, null if the lock has none
 */
record Grant(Long fence) {
    static final Grant PLAIN = new Grant(null);
}
