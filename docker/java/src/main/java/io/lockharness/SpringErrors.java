package io.lockharness;

import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.SocketTimeoutException;
import java.util.Arrays;
import java.util.Locale;
import org.springframework.jdbc.CannotGetJdbcConnectionException;
import org.springframework.transaction.CannotCreateTransactionException;

/** Classifies the errors of Spring's database and Redis templates by whether the request may have been executed. */
final class SpringErrors {
    private SpringErrors() {}

    /** Throws Refused or Unknown, depending on what {@code error} means for its request. */
    static void judge(RuntimeException error) throws Refused, Unknown {
        if (notDone(error)) {
            throw new Refused(error);
        }
        throw new Unknown(error);
    }

    /**
     * Tells whether the request was certainly not sent, because there was no connection. The class of Jedis' own error
     * does not tell, but its cause does, which newer versions of Jedis store as a suppressed error.
     */
    private static boolean notDone(Throwable error) {
        return error != null
                && (error instanceof CannotGetJdbcConnectionException
                        || error instanceof CannotCreateTransactionException
                        || error instanceof ConnectException
                        || error instanceof NoRouteToHostException
                        || isConnectTimeout(error)
                        || notDone(error.getCause())
                        || Arrays.stream(error.getSuppressed()).anyMatch(SpringErrors::notDone));
    }

    private static boolean isConnectTimeout(Throwable error) {
        return error instanceof SocketTimeoutException
                && String.valueOf(error.getMessage()).toLowerCase(Locale.ROOT).startsWith("connect");
    }
}
