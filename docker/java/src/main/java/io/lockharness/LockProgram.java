package io.lockharness;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The lock program for Java libraries. It speaks the client protocol (docs/client-protocol.md): one JSON object per
 * line, answered in the order of the requests.
 */
public final class LockProgram {
    /**
     * The class that opens each lock, in this package, with a static method open(Servers). It is loaded when it is
     * opened: a program that is built with an old release of a library is without the classes that do not compile with
     * it (see pom.xml).
     */
    private static final Map<String, String> LOCKS = Map.of(
            "redisson-lock", "RedissonLocks",
            "redisson-fenced", "RedissonFencedLocks",
            "redisson-multilock", "RedissonMultiLocks",
            "redisson-redlock", "RedissonRedLocks",
            "curator-mutex", "CuratorLocks",
            "shedlock-jdbc", "ShedLockJdbcLocks",
            "shedlock-redis", "ShedLockRedisLocks",
            "spring-redis-lock", "SpringRedisLocks",
            "spring-jdbc-lock", "SpringJdbcLocks");
    private static final String BUSY = "busy";
    private static final JSON LINES = JSON.std.with(JSON.Feature.WRITE_NULL_PROPERTIES);

    private Locks locks;

    private LockProgram() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        System.setOut(System.err); // so that a library's output is not taken for an answer
        LockProgram program = new LockProgram();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        boolean goesOn = true;
        for (String line = requests.readLine(); goesOn && line != null; line = goesOn ? requests.readLine() : null) {
            Map<String, Object> request = parsed(line);
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("id", request.get("id"));
            program.answer(request, answer);
            answers.write((LINES.asString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            answers.flush();
            goesOn = !"close".equals(request.get("op"));
        }
        Runtime.getRuntime().halt(0); // otherwise the libraries' threads keep the process alive
    }

    private static Map<String, Object> parsed(String line) {
        try {
            return LINES.mapFrom(line);
        } catch (IOException error) {
            return Map.of("op", "a line that is not JSON");
        }
    }

    private void answer(Map<String, Object> request, Map<String, Object> answer) {
        try {
            answer.put("ok", done(request));
        } catch (Refused refusal) {
            answer.put("fail", refusal.getMessage());
        } catch (Unknown doubt) {
            answer.put("info", doubt.getMessage());
        } catch (Exception error) {
            error.printStackTrace();
            answer.put("error", Texts.of(error));
        }
    }

    private Object done(Map<String, Object> request) throws Exception {
        String op = String.valueOf(request.get("op"));
        String key = String.valueOf(request.get("key"));
        switch (op) {
            case "open":
                open(request);
                return null;
            case "acquire":
                return acquired(key, ((Number) request.get("timeout")).doubleValue());
            case "release":
                opened().release(key);
                return null;
            case "still_valid":
                return opened().stillValid(key);
            case "close":
                close();
                return null;
            default:
                throw new IllegalArgumentException("unknown op '" + op + "'");
        }
    }

    private void open(Map<String, Object> request) throws Exception {
        if (locks != null) {
            throw new IllegalStateException("it is open already");
        }
        String name = LOCKS.get(String.valueOf(request.get("lock")));
        if (name == null) {
            throw new IllegalArgumentException("unknown lock '" + request.get("lock") + "', expected one of "
                    + LOCKS.keySet().stream().sorted().toList());
        }
        Method opening = Class.forName(LockProgram.class.getPackageName() + "." + name)
                .getDeclaredMethod("open", Servers.class);
        try {
            locks = (Locks) opening.invoke(null, Servers.of(request));
        } catch (InvocationTargetException error) {
            throw error.getCause() instanceof Refused ? (Refused) error.getCause() : error;
        }
    }

    private Map<String, Object> acquired(String key, double timeout) throws Exception {
        Grant grant = opened().acquire(key, Math.round(timeout * 1000));
        if (grant == null) {
            throw new Refused(BUSY);
        }
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("fence", grant.fence());
        value.put("valid_for", grant.validFor());
        return value;
    }

    private Locks opened() {
        if (locks == null) {
            throw new IllegalStateException("nothing is open");
        }
        return locks;
    }

    private void close() {
        if (locks != null) {
            locks.close();
        }
    }
}
