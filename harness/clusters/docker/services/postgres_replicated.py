"""PostgreSQL servers in containers with streaming replication: a primary, hot standbys, and a failover manager.

The first server becomes the primary. At the first start all have the data of our image, as if the standbys had been
made by ``pg_basebackup``; on another image they are. Later a server without data, and one that the manager orders to,
waits until another server accepts writes and copies that by ``pg_basebackup``. If all servers are lost at once, nobody
founds the cluster again.
"""

from __future__ import annotations

from typing import Any, Final

from harness.clusters.docker.containers.server_tools import IMAGE_SHELL
from harness.clusters.kinds import ACCOUNT
from harness.clusters.kinds.postgres import SYNCHRONOUS

from .failover import ManagedServers
from .faketime import ENVIRONMENT
from .postgres import AS_POSTGRES, CHANGE_USER, INSTALL, LIBRARY, NO_PID_FILE, PostgresServers, setting_options
from .postgres_manager import REJOIN, follows

_START: Final = f"""exec 2>&1
{LIBRARY}
copy_primary() {{
  while :; do
    for peer in $PEERS; do
      rm -rf /data/db && mkdir -m 700 /data/db && chown postgres:postgres /data/db || exit
      if [ "$(psql -h "$peer" -Atc 'SELECT pg_is_in_recovery()' 2>/dev/null)" = f ] \\
      && {CHANGE_USER} pg_basebackup -h "$peer" -D /data/db -R -c fast; then return; fi
    done
    sleep 0.1
  done
}}
while :; do
  if ! [ -e /data/whole ]; then
    if [ -e /tmp/joined ] || {{ [ -n "$FOLLOWS" ] && ! [ -d /prepared ]; }}; then copy_primary
    else
      {INSTALL}      if [ -n "$FOLLOWS" ]; then
        printf "primary_conninfo = 'host=%s port=$PGPORT user=$PGUSER connect_timeout=1'\\n" "$FOLLOWS" \\
          >>/data/db/postgresql.auto.conf && >/data/db/standby.signal || exit
      fi
    fi
    >/data/whole && >/tmp/joined && sync -f /data || exit
  fi
  {NO_PID_FILE}  {AS_POSTGRES} "$@"
  [ -e {REJOIN} ] || exit
  rm -f /data/whole
done
"""
SETTINGS: Final = {
    "wal_keep_size": "32MB", "wal_receiver_status_interval": "1s", "wal_receiver_timeout": "4s",
    "wal_retrieve_retry_interval": "1s", "wal_sender_timeout": "4s",
}  # fmt: skip
"""Replication settings: a standby notices a lost connection within seconds, and reconnects after a second."""


class ReplicatedPostgresServers(ManagedServers, PostgresServers):
    """See :class:`harness.clusters.docker.kinds.RealServers`."""

    MANAGER = "harness.clusters.docker.services.postgres_manager"

    def server_program(self, host: str) -> tuple[list[str], dict[str, str]]:
        first = self.data_hosts[0]
        environment = {
            **ENVIRONMENT,
            "FOLLOWS": "" if host == first else self.addresses[first],
            "PEERS": " ".join(self.addresses[name] for name in self.data_hosts if name != host),
            "PGCONNECT_TIMEOUT": "1",
            "PGDATABASE": ACCOUNT,
            "PGPORT": str(self.port(host)),
            "PGUSER": ACCOUNT,
        }
        return [IMAGE_SHELL, "-c", _START, "start", *self.server_command(host), *setting_options(SETTINGS)], environment

    def server_answers(self, host: str) -> bool:
        return PostgresServers.answers(self, host)

    def is_linked(self, host: str) -> bool:
        return bool(self.ask(host, self._has_standbys if host == "n1" else self._follows_first))

    def _has_standbys(self, connection: Any) -> bool:
        states = connection.run("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")
        enough = len(states) >= len(self.data_hosts) - 1
        return enough and (not self.options.get(SYNCHRONOUS) or ["sync"] in states)

    def _follows_first(self, connection: Any) -> bool:
        return follows(connection, self.addresses["n1"])
