package io.lockharness;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Addresses of the servers, the lease time of locks, and the lock's options.
 *
 * @param kind kind of cluster, such as {@code redis-single}
 * @param addresses {@code host:port}; with {@code redis-sentinel} they are the sentinels
 * @param service the sentinels' name of the primary
 * @param account user, password and name of the database
 * @param ttlMs the lease, or the session's time-out
 * @param options the lock's own options
 */
record Servers(
        String kind, List<String> addresses, String service, String account, int ttlMs, Map<String, Object> options) {
    private static final double ANSWER_S = 1;

    /** Reads the fields of an {@code open}. */
    static Servers of(Map<String, Object> request) {
        List<String> addresses = new ArrayList<>();
        for (Object address : (List<?>) request.get("addresses")) {
            List<?> pair = (List<?>) address;
            addresses.add(pair.get(0) + ":" + pair.get(1));
        }
        return new Servers(
                String.valueOf(request.get("kind")),
                List.copyOf(addresses),
                String.valueOf(request.getOrDefault("service", "mymaster")),
                String.valueOf(request.getOrDefault("account", "harness")),
                milliseconds(request.get("ttl")),
                options(request));
    }

    @SuppressWarnings("unchecked") // the keys of an object in JSON are strings
    private static Map<String, Object> options(Map<String, Object> request) {
        return (Map<String, Object>) request.getOrDefault("options", Map.of());
    }

    private static int milliseconds(Object seconds) {
        return (int) Math.round(((Number) seconds).doubleValue() * 1000);
    }

    String host(int number) {
        String address = addresses.get(number);
        return address.substring(0, address.lastIndexOf(':'));
    }

    int port(int number) {
        String address = addresses.get(number);
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** The option answer_timeout: how long the client waits for an answer. */
    int answerMs() {
        return milliseconds(options.getOrDefault("answer_timeout", ANSWER_S));
    }

    /** The option retries: how often a client repeats a request without an answer. */
    int retries() {
        return ((Number) options.getOrDefault("retries", 1)).intValue();
    }

    /** An option that is true or false. */
    boolean isSet(String option) {
        return Boolean.TRUE.equals(options.get(option));
    }
}
