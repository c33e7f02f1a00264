package io.lockharness;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Curator's InterProcessMutex. The fence is the czxid of the mutex's node, which this class reads (one request more
 * than the lock makes). A ConnectionStateListener tells whether the lock is still held, as Curator's documentation
 * recommends: SUSPENDED means "cannot be certain", and LOST means "certain that you no longer hold the lock".
 *
 * <p>By default Curator waits 15 s for a connection and 60 s for a session; here 1 s and the ttl, with two more tries.
 */
final class CuratorLocks implements Locks {
    private static final int CONNECT_MS = 1000;
    private static final int BACKOFF_MS = 100;
    private static final int TRIES = 2;

    /** The lock; only a subclass can read its path. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    private final CuratorFramework client;
    private final Map<String, Mutex> mutexes = new HashMap<>(); // "re-use a single instance", says its documentation
    private final Map<String, Integer> heldSince = new HashMap<>();
    private volatile boolean connected;
    private volatile int losses;

    private CuratorLocks(Servers servers) {
        client = CuratorFrameworkFactory.builder()
                .connectString(String.join(",", servers.addresses()))
                .sessionTimeoutMs(servers.ttlMs())
                .connectionTimeoutMs(CONNECT_MS)
                .retryPolicy(new ExponentialBackoffRetry(BACKOFF_MS, TRIES))
                .build();
        client.getConnectionStateListenable().addListener((of, state) -> heard(state));
        client.start();
    }

    static Locks open(Servers servers) throws Refused {
        CuratorLocks locks = new CuratorLocks(servers);
        try {
            if (locks.client.blockUntilConnected(CONNECT_MS * (TRIES + 1), TimeUnit.MILLISECONDS)) {
                return locks;
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        locks.close();
        throw new Refused("no ZooKeeper server answers");
    }

    private void heard(ConnectionState state) {
        if (state == ConnectionState.LOST) {
            losses++; // only Curator's one thread writes it
        }
        connected = state.isConnected();
    }

    @Override
    public Grant acquire(String key, long waitMs) throws Refused, Unknown {
        Mutex mutex = mutex(key);
        int lossesBefore = losses;
        try {
            if (!mutex.acquire(waitMs, TimeUnit.MILLISECONDS)) {
                return null;
            }
        } catch (KeeperException.NoNodeException error) {
            throw new Refused(error); // its node is gone with its session
        } catch (Exception error) {
            throw new Unknown(error);
        }
        heldSince.putIfAbsent(key, lossesBefore);
        return Grant.fenced(fence(key, mutex));
    }

    /** Reads the fence; if that fails, releases the lock. */
    private long fence(String key, Mutex mutex) throws Refused, Unknown {
        Stat node = null;
        String why = "its node is gone with its session";
        try {
            node = client.checkExists().forPath(mutex.node());
        } catch (Exception error) {
            why = "its fence cannot be read: " + Texts.of(error);
        }
        if (node == null) {
            release(key);
            throw new Refused(why);
        }
        return node.getCzxid();
    }

    @Override
    public void release(String key) throws Refused, Unknown {
        Mutex mutex = mutex(key);
        try {
            mutex.release();
        } catch (IllegalMonitorStateException error) {
            throw new Refused("not the holder");
        } catch (Exception error) {
            throw new Unknown(error);
        } finally {
            if (!mutex.isOwnedByCurrentThread()) {
                heldSince.remove(key);
            }
        }
    }

    @Override
    public boolean stillValid(String key) {
        return connected && heldSince.getOrDefault(key, -1) == losses;
    }

    private Mutex mutex(String key) {
        return mutexes.computeIfAbsent(key, name -> new Mutex(client, path(name)));
    }

    /** Names the node as the locks in Python do: characters with a meaning in a path are quoted, except ':'. */
    private static String path(String key) {
        String name = URLEncoder.encode(key, StandardCharsets.UTF_8).replace("%3A", ":").replace("+", "%20");
        return "/locks/" + (name.matches("[.]{0,2}") ? "%" + name.replace(".", "2E") : name);
    }

    @Override
    public void close() {
        client.close();
    }
}
