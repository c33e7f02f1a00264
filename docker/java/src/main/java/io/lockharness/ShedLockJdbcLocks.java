package io.lockharness;

import com.zaxxer.hikari.HikariDataSource;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;

/** ShedLock's JdbcTemplateLockProvider. The option db_time is usingDbTime(), which its README recommends. */
final class ShedLockJdbcLocks {
    private static final String COLUMNS = "name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL, "
            + "locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), "
            + "locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name)";
    private static final String TABLE = "CREATE TABLE IF NOT EXISTS shedlock(" + COLUMNS + ")";

    private ShedLockJdbcLocks() {}

    static Locks open(Servers servers) throws Refused {
        HikariDataSource pool = Databases.open(servers, TABLE);
        JdbcTemplateLockProvider.Configuration.Builder configuration =
                JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(new JdbcTemplate(pool));
        if (servers.isSet("db_time")) {
            configuration.usingDbTime();
        }
        return new ShedLocks(new JdbcTemplateLockProvider(configuration.build()), servers.ttlMs(), pool::close);
    }
}
