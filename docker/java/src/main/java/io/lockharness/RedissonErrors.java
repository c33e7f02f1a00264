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

/** Classifies Redisson's errors by whether the request may have been executed. */
final class RedissonErrors {
    /**
     * Errors after which the request was certainly not executed: a server's refusals before a script begins (OOM,
     * READONLY, LOADING, BUSY, ...), and errors for lack of a connection. WriteRedisConnectionException, a subclass of
     * the latter, is not among them: there was a connection, and it is unknown how much was sent. Nor are time-outs.
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

    /** Throws Refused or Unknown, depending on what {@code error} means for its request. */
    static void judge(RedisException error) throws Refused, Unknown {
        if (notDone(error)) {
            throw new Refused(error);
        }
        throw new Unknown(error);
    }

    /** Tells whether the error, or its cause, means that the request was not and will not be executed. */
    static boolean notDone(Throwable error) {
        Throwable said = error;
        while (WRAPPERS.contains(said.getClass()) && said.getCause() != null) {
            said = said.getCause();
        }
        return NOT_DONE.contains(said.getClass()) || said instanceof RedisRetryException;
    }
}
