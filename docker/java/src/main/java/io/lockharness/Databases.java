package io.lockharness;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import com.zaxxer.hikari.pool.HikariPool.PoolInitializationException;
import java.util.Locale;
import org.springframework.jdbc.core.JdbcTemplate;

/**
 * Opens pools of connections to MariaDB or PostgreSQL, with HikariCP, as Spring Boot does. An answer and a connection
 * may take as long as the option answer_timeout says; by default the drivers wait for ever, and HikariCP 30 s.
 */
final class Databases {
    private static final int CONNECTIONS = 2;
    /** HikariCP accepts no shorter time. */
    private static final int SHORTEST_WAIT_MS = 250;

    private Databases() {}

    /** Connects to the first server, and makes the table with {@code create} if there is none. */
    static HikariDataSource open(Servers servers, String create) throws Refused {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url(servers));
        config.setUsername(servers.account());
        config.setPassword(servers.account());
        config.setMaximumPoolSize(CONNECTIONS);
        config.setMinimumIdle(1);
        config.setConnectionTimeout(Math.max(servers.answerMs(), SHORTEST_WAIT_MS));
        HikariDataSource pool = null;
        try {
            pool = new HikariDataSource(config);
            new JdbcTemplate(pool).execute(create);
            return pool;
        } catch (PoolInitializationException error) { // no lock was requested yet
            throw new Refused(error);
        } catch (RuntimeException error) {
            pool.close();
            throw new Refused(error);
        }
    }

    private static String url(Servers servers) {
        int answerMs = servers.answerMs();
        String where = servers.addresses().get(0) + "/" + servers.account();
        if (servers.kind().startsWith("postgres")) {
            int seconds = Math.max(1, (int) Math.ceil(answerMs / 1000.0)); // the driver knows whole seconds only
            return "jdbc:postgresql://" + where + "?socketTimeout=" + seconds + "&connectTimeout=" + seconds;
        }
        return String.format(
                Locale.ROOT, "jdbc:mariadb://%s?socketTimeout=%d&connectTimeout=%d", where, answerMs, answerMs);
    }
}
