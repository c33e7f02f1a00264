"""MariaDB nodes with Galera in containers: a cluster in which clients may write to any node.

A node that starts, or starts again, gets its data from another one by rsync. The first node founds the cluster when it
starts for the first time, and joins the others later: if all nodes were lost at once, nobody founds it again.
"""

from __future__ import annotations

from typing import Any, Final

from harness.clusters.docker.containers.server_tools import IMAGE_SHELL
from harness.clusters.docker.images.images import Images
from harness.clusters.docker.kinds import RealPeers
from harness.clusters.kinds import ACCOUNT

from .faketime import ANNOUNCE, ENVIRONMENT, FIND, FaketimeServers
from .mysql import INIT, SETTINGS, MysqlServers

_START: Final = f"""exec 2>&1
new=
if ! [ -e /data/whole ]; then
  rm -rf /data/db
  cp -a /prepared /data/db && chown -R mysql /data/db && chmod 777 /data || exit
  : >/data/whole
fi
if [ -n "$FIRST" ] && ! [ -e /var/lib/node-joined ]; then new=--wsrep-new-cluster; fi
: >/var/lib/node-joined
printf '%s' "$INIT" >/data/init.sql
{FIND}{ANNOUNCE}exec "$@" $new
"""
_PROGRAM: Final = (
    "mariadbd", "--no-defaults", "--user=mysql", "--datadir=/data/db", "--init-file=/data/init.sql",
    "--socket=/data/mysql.sock", "--pid-file=/data/mysql.pid", "--bind-address=0.0.0.0", *SETTINGS,
    "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON",
    "--wsrep-provider=/usr/lib/galera/libgalera_smm.so", "--wsrep-provider-options=gcache.size=8M",
    "--wsrep-sst-method=rsync", f"--wsrep-cluster-name={ACCOUNT}",
)  # fmt: skip
STATUS: Final = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = %s"


class GaleraServers(MysqlServers, RealPeers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. Clients get the addresses of all nodes."""

    START = 300.0  # a node is given its data in seconds, and in minutes by a busy machine
    RESTORE = f"rm -f /var/lib/node-joined; {FaketimeServers.RESTORE}"

    def image(self, images: Images, host: str) -> str:  # noqa: ARG002
        return images.server("galera")

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        nodes = ",".join(self.addresses[name] for name in self.data_hosts)
        own = (
            f"--wsrep-cluster-address=gcomm://{nodes}",
            f"--wsrep-node-address={self.addresses[host]}",
            f"--wsrep-node-name={host}",
        )
        environment = {**ENVIRONMENT, "INIT": INIT, "FIRST": "yes" if host == self.data_hosts[0] else ""}
        return [IMAGE_SHELL, "-c", _START, "start", *_PROGRAM, *own, *self._chosen()], environment

    @property
    def stages(self) -> list[list[str]]:
        """Start one node at a time, since each is given its data by an earlier one."""
        return [[name] for name in self.data_hosts]

    def ready(self, host: str) -> bool:
        """Return whether the node has the data of the cluster and is in it, with all the earlier nodes."""
        at_least = self.data_hosts.index(host) + 1
        return (
            self._status(host, "wsrep_local_state_comment") == "Synced"
            and int(self._status(host, "wsrep_cluster_size") or 0) >= at_least
        )

    def _status(self, host: str, name: str) -> str:
        """Return a status variable of a node, empty if it does not answer."""

        def read(connection: Any) -> str:
            with connection.cursor() as cursor:
                cursor.execute(STATUS, (name,))
                rows = cursor.fetchall()
            return str(rows[0][0]) if rows else ""

        return self._ask(host, read) or ""
