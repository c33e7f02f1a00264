"""Simulated MariaDB 10.11 server: protocol, SQL, InnoDB's row locks and transactions, replication and failover."""
