"""A simulated Redis 7.0 server and Redis Sentinel, which speak the real protocol (RESP) to real client libraries."""
