package io.lockharness;

import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.redisson.client.RedisException;

/**
 * Classifies Redisson's errors by whether the request may have been executed. The classes are named, because old
 * releases do not have all of them.
 */
final class RedissonErrors {
    /**
     * Errors after which the request was certainly not executed: a server's refusals before a script begins (OOM,
     * READONLY, LOADING, BUSY, ...), and errors for lack of a connection. WriteRedisConnectionException, a subclass of
     * the latter, is not among them: there was a connection, and it is unknown how much was sent. Nor are time-outs.
     */
    private static final Set<String> NOT_DONE = Set.of(
            "RedisRetryException",
            "RedisOutOfMemoryException",
            "RedisReadonlyException",
            "RedisNodeNotFoundException",
            "RedisConnectionException");

    private static final String REFUSAL = "RedisRetryException";

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
        return NOT_DONE.contains(said.getClass().getSimpleName()) || isRefusal(said.getClass());
    }

    private static boolean isRefusal(Class<?> type) {
        return type != null && (type.getSimpleName().equals(REFUSAL) || isRefusal(type.getSuperclass()));
    }
}
