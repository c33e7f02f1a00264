package io.lockharness;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Redisson's RedissonRedLock (deprecated since 3.12.5) over one RLock per server, each with its own client, whose
 * watchdog renews it. A server has a tenth of the ttl to answer: the algorithm asks for a time that is "small compared
 * to the auto-release time", and RedissonRedLock asks one server after the other.
 *
 * <p>Its {@code unlock} does not report what it could not release, and its {@code tryLock} does not report servers that
 * did not answer. So this class observes both, and counts how often each key is held.
 */
final class RedissonRedLocks implements Locks {
    private static final Logger LOG = LoggerFactory.getLogger(RedissonRedLocks.class);
    private static final int SHARE = 10;
    private static final int LEAST_MS = 50;

    private final List<RedissonClient> clients;
    private final Map<String, Integer> held = new HashMap<>();

    private RedissonRedLocks(List<RedissonClient> clients) {
        this.clients = clients;
    }

    static Locks open(Servers servers) {
        int answer = Math.max(servers.ttlMs() / SHARE, LEAST_MS);
        List<RedissonClient> clients = servers.addresses().stream()
                .map(address -> client(address, servers.ttlMs(), answer))
                .toList();
        clients.forEach(RedissonRedLocks::connect);
        return new RedissonRedLocks(clients);
    }

    /** Opens a client that connects on first use, because any of the servers may be down. */
    private static RedissonClient client(String address, int ttlMs, int answerMs) {
        return RedissonClients.oneOf(RedissonClients.config(ttlMs).setLazyInitialization(true), address, answerMs);
    }

    /**
     * Sends any request, so that the first acquire does not wait for connections. An unreachable server is ignored.
     */
    private static void connect(RedissonClient client) {
        try {
            client.getLock("").isLocked();
        } catch (RedisException error) {
            LOG.debug("not connected yet", error);
        }
    }

    @Override
    public Grant acquire(String key, long waitMs) throws Unknown, InterruptedException {
        List<RedissonWatchedLock> servers = servers(key);
        if (!lock(servers).tryLock(waitMs, TimeUnit.MILLISECONDS)) {
            long left = servers.stream().filter(RedissonWatchedLock::mayStay).count();
            long asked = servers.stream().filter(RedissonWatchedLock::asked).count();
            if (left >= majority() || left > 0 && left == asked) { // none answered: assume the worst
                throw new Unknown("false, and the key may be on " + left + " of " + servers.size() + " servers");
            }
            return null;
        }
        held.merge(key, 1, Integer::sum);
        return Grant.PLAIN;
    }

    @Override
    public void release(String key) throws Refused, Unknown {
        if (!held.containsKey(key)) {
            throw new Refused("not the holder");
        }
        held.computeIfPresent(key, (name, times) -> times == 1 ? null : times - 1);
        List<RedissonWatchedLock> servers = servers(key);
        lock(servers).unlock();
        long silent = count(servers, RedissonWatchedLock.Said.UNKNOWN);
        if (servers.size() - silent < majority()) {
            throw new Unknown(silent + " of " + servers.size() + " servers did not answer");
        }
        if (silent == 0 && count(servers, RedissonWatchedLock.Said.YES) == 0) {
            throw new Refused("not the holder");
        }
    }

    private static long count(List<RedissonWatchedLock> servers, RedissonWatchedLock.Said said) {
        return servers.stream().filter(server -> server.given() == said).count();
    }

    private int majority() {
        return clients.size() / 2 + 1;
    }

    private List<RedissonWatchedLock> servers(String key) {
        return clients.stream().map(client -> new RedissonWatchedLock(client.getLock(key))).toList();
    }

    private static RedissonRedLock lock(List<RedissonWatchedLock> servers) {
        return new RedissonRedLock(servers.stream().map(RedissonWatchedLock::asLock).toArray(RLock[]::new));
    }

    @Override
    public void close() {
        clients.forEach(RedissonClient::shutdown);
    }
}
