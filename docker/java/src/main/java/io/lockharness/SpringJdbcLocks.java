package io.lockharness;

import com.zaxxer.hikari.HikariDataSource;
import java.time.Duration;
import org.springframework.integration.jdbc.lock.DefaultLockRepository;
import org.springframework.integration.jdbc.lock.JdbcLockRegistry;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;

/** Spring Integration's JdbcLockRegistry with its DefaultLockRepository; its locks expire after the ttl. */
final class SpringJdbcLocks {
    /** The columns are those of Spring Integration's schemas for MySQL and PostgreSQL. */
    private static final String TABLE = "CREATE TABLE IF NOT EXISTS INT_LOCK (LOCK_KEY CHAR(36) NOT NULL, "
            + "REGION VARCHAR(100) NOT NULL, CLIENT_ID CHAR(36), CREATED_DATE %1$s NOT NULL, "
            + "EXPIRED_AFTER %1$s NOT NULL, CONSTRAINT INT_LOCK_PK PRIMARY KEY (LOCK_KEY, REGION))";

    private SpringJdbcLocks() {}

    static Locks open(Servers servers) throws Refused {
        String moment = servers.kind().startsWith("postgres") ? "TIMESTAMP" : "DATETIME(6)";
        HikariDataSource pool = Databases.open(servers, String.format(TABLE, moment));
        DefaultLockRepository repository = new DefaultLockRepository(pool);
        repository.setTransactionManager(new DataSourceTransactionManager(pool));
        repository.afterPropertiesSet();
        repository.afterSingletonsInstantiated();
        repository.start();
        JdbcLockRegistry registry = new JdbcLockRegistry(repository, Duration.ofMillis(servers.ttlMs()));
        return new SpringLocks(registry::obtain, servers, pool::close);
    }
}
