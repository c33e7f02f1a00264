"""The command that starts the program with the locks of Java libraries (``docker/java``) in a client's container."""

from __future__ import annotations

from typing import Final

RUN: Final = ("java", "-XX:SharedArchiveFile=/opt/locks/classes.jsa", "@/opt/locks/options")
LANGUAGE: Final = "Java"
RUNTIME: Final = "java"
REDISSON: Final = "redisson 4.7.0"
CURATOR: Final = "curator-recipes 5.9.0"
SHEDLOCK_JDBC: Final = "shedlock-provider-jdbc-template 7.10.1"
SHEDLOCK_REDIS: Final = "shedlock-provider-redis-spring 7.10.1"
SPRING_JDBC: Final = "spring-integration-jdbc 7.1.2"
SPRING_REDIS: Final = "spring-integration-redis 7.1.2"
WATCHDOG: Final = "the watchdog's time-out, which is the ttl: nobody renews the key then"
LEASE: Final = "expiry: its lease ends after the ttl"
