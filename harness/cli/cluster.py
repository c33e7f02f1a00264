"""``harness cluster``: start clusters by hand, and remove what killed runs have left behind."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from harness.clusters import kinds
from harness.clusters.kinds.releases import ALL_RELEASES
from harness.clusters.server_options import completed
from harness.errors import UsageError, unknown_name

from .command import Commands
from .completion import complete_kinds
from .options import QuietOption, printed, progress_bar

app = Commands(
    help="Start clusters by hand, list the running ones, and remove what was left behind.", no_args_is_help=True
)


@app.command("up")
def up(
    kind: Annotated[str, typer.Argument(help="A name from 'harness list kinds'.", autocompletion=complete_kinds)],
    nodes: Annotated[int, typer.Option(help="Number of servers; 0: the usual number for the kind.")] = 0,
    image: Annotated[str, typer.Option(help="The servers' image or release, such as redis:7.4 or etcd-3.6.16.")] = "",
    quiet: QuietOption = False,
) -> None:
    """Start servers of a kind in containers and leave them running; prints their addresses."""
    from harness.clusters.docker.cluster import DockerCluster
    from harness.clusters.docker.container_needs import Clients

    if not (kinds.KINDS.has(kind) and kinds.can_run(kind, "docker")):
        raise unknown_name("kind", kind, kinds.kinds("docker"))
    if nodes < 0:
        raise UsageError(f"nodes must not be negative, got {nodes}")
    released = image in ALL_RELEASES
    if image and not released:
        kinds.KINDS.find(kind).allow_image()
    console = Console(stderr=True, highlight=False, quiet=quiet)
    with progress_bar(console, f"cluster up {kind}") as progress:
        cluster = DockerCluster(
            kind=kind,
            nodes=nodes,
            clients=Clients(0),
            seed=0,
            resource="",
            options=completed(kinds.KINDS.find(kind).options, {"release": image}, "docker") if released else {},
            needs=frozenset(),
            image="" if released else image,
            report=lambda line: progress(0.0, f"starting: {line}"),
            by_hand=True,
        )
        try:
            cluster.start_all()
        except BaseException:
            cluster.stop_all()
            raise
    for host in cluster.hosts:
        place = f"{host.address}:{cluster.servers.port(host.name)}"
        typer.echo(place if quiet else f"{host.name}  {host.role}  {place}")
    if not quiet:
        typer.echo(f"remove it with: harness cluster down {cluster.deployment.id}", err=True)


@app.command("ps")
def ps(quiet: QuietOption = False) -> None:
    """List all clusters that the engine holds, with their hosts."""
    from harness.clusters.docker.containers.engine import connect, find_clusters

    clusters = find_clusters(connect())
    if quiet:
        printed(lambda: print(*(cluster.id for cluster in clusters), sep="\n", end="\n" if clusters else ""))
        return
    table = Table("cluster", "kind", "of", "hosts")
    for cluster in clusters:
        owner = "hand" if cluster.by_hand else "a run" if cluster.alive else "a run that is gone"
        hosts = "\n".join(f"{name} {role} {address} {state}" for name, role, state, address in cluster.hosts)
        table.add_row(cluster.id, cluster.kind, owner, hosts)
    Console(highlight=False).print(table)


@app.command("down")
def down(
    clusters: Annotated[
        list[str] | None, typer.Argument(help="Ids of clusters; without any, all that were started by hand.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Remove clusters that were started by hand, or left behind by a run that is gone."""
    from harness.clusters.docker.containers.engine import connect, find_clusters, remove

    client = connect()
    mine = {cluster.id: cluster for cluster in find_clusters(client)}
    for name in clusters or ():
        if name not in mine:
            raise unknown_name("cluster", name, mine)
        if mine[name].alive and not mine[name].by_hand:
            raise UsageError(f"cluster {name} belongs to a run in progress: end the run (Ctrl-C) to remove it")
    _print_removed(remove(client, clusters or [name for name, cluster in mine.items() if cluster.by_hand]), quiet=quiet)


@app.command("clean")
def clean(
    everything: Annotated[bool, typer.Option("--all", help="Also clusters that are in use.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Remove containers, networks and volumes of runs whose process is gone; rules go with their containers."""
    from harness.clusters.docker.containers.engine import connect, find_clusters, remove

    client = connect()
    unused = [cluster.id for cluster in find_clusters(client) if everything or not cluster.alive]
    _print_removed(remove(client, unused), quiet=quiet)


def _print_removed(names: list[str], *, quiet: bool) -> None:
    for name in sorted(names):
        typer.echo(name if quiet else f"removed {name}")
    if not names and not quiet:
        typer.echo("nothing to remove")
