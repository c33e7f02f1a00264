package io.lockharness;

import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.redisson.client.RedisConnectionException;
import org.redisson.client.RedisException;
import org.redisson.client.RedisNodeNotFoundException;
import org.redisson.client.RedisOutOfMemoryException;
import org.redisson.client.RedisReadonlyException;
import org.redisson.client.RedisRetryException;

/** What Redisson's errors say of a request. */
final class RedissonErrors {
    /**
     * The server's refusals, which come before a script begins (OOM, READONLY, LOADING, BUSY, ...), and what is said
     * while there is no connection to send a request on. WriteRedisConnectionException derives from the last: there
     * was a connection, and it is not known how much left on it. Time-outs are unknown.
     */
    private static final List<Class<? extends RedisException>> NOT_DONE = List.of(
            RedisRetryException.class,
            RedisOutOfMemoryException.class,
            RedisReadonlyException.class,
            RedisNodeNotFoundException.class,
            RedisConnectionException.class);

    private static final List<Class<? extends Throwable>> WRAPPERS =
            List.of(RedisException.class, ExecutionException.class, CompletionException.class);

    private RedissonErrors() {}

    /** Throws what {@code error} means for the request that it came of. */
    static void judge(RedisException error) throws Refused, Unknown {
        if (notDone(error)) {
            throw new Refused(error);
        }
        throw new Unknown(error);
    }

    /** Does the error, or the one it is wrapped around, say that its request was not and will not be carried out? */
    static boolean notDone(Throwable error) {
        Throwable said = error;
        while (WRAPPERS.contains(said.getClass()) && said.getCause() != null) {
            said = said.getCause();
        }
        return NOT_DONE.contains(said.getClass()) || said instanceof RedisRetryException;
    }
}
