package io.lockharness;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Addresses of the servers, and the lease time of locks.
 *
 * @param kind kind of cluster, such as {@code redis-single}
 * @param addresses {@code host:port}; with {@code redis-sentinel} they are the sentinels
 * @param service the sentinels' name of the primary
 * @param ttlMs the lease, or the session's time-out
 */
record Servers(String kind, List<String> addresses, String service, int ttlMs) {
    /** Reads the fields of an {@code open}. */
    static Servers of(Map<String, Object> request) {
        List<String> addresses = new ArrayList<>();
        for (Object address : (List<?>) request.get("addresses")) {
            List<?> pair = (List<?>) address;
            addresses.add(pair.get(0) + ":" + pair.get(1));
        }
        String service = String.valueOf(request.getOrDefault("service", "mymaster"));
        int ttl = (int) Math.round(((Number) request.get("ttl")).doubleValue() * 1000);
        return new Servers(String.valueOf(request.get("kind")), List.copyOf(addresses), service, ttl);
    }
}
