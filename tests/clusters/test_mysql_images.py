"""The start script of MariaDB and MySQL: it takes the server that an image has, with that server's options."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.clusters.docker.services.mysql import MysqlServers

TOOLS = ("cp", "date", "od", "rm", "sed", "sleep", "tr")


MYSQLS = {
    "mariadb 11": ("mariadbd", "mariadbd  Ver 11.4.2-MariaDB for Linux", "mariadb-install-db", "--log-warnings=1"),
    "mariadb 10.4": ("mysqld", "mysqld  Ver 10.4.34-MariaDB for Linux", "mysql_install_db", "--log-warnings=1"),
    "mysql 8.0": ("mysqld", "/usr/sbin/mysqld  Ver 8.0.36 for Linux on x86_64", "", "--log-error-verbosity=2"),
    "mysql 9": ("mysqld", "mysqld  Ver 9.7.4-2 for Linux on x86_64", "", "--log-error-verbosity=2"),
}


@pytest.mark.parametrize("name", MYSQLS)
def test_the_start_script_takes_the_server_that_the_image_has(name: str, tmp_path: Path) -> None:
    program, about, installs, option = MYSQLS[name]
    calls, found = tmp_path / "calls", _run_script(tmp_path, {program: about, **({installs: ""} if installs else {})})
    assert found.returncode == 0, found.stdout
    made, started = [line for line in calls.read_text().splitlines() if not line.startswith("mysql ")]
    assert made.startswith(f"{installs} --no-defaults" if installs else "mysqld --no-defaults --initialize-insecure")
    assert started.startswith(f"{program} --no-defaults --user=root --datadir=")
    assert f" {option} " in started
    assert ("--loose-mysql-native-password=ON" in started) == (not installs)
    assert ("mysql_native_password" in (tmp_path / "data/init.sql").read_text()) == (name == "mysql 8.0")
    assert _run_script(tmp_path, {}).returncode == 0, "the data of the first start is kept"


def test_an_image_without_a_server_says_so(tmp_path: Path) -> None:
    found = _run_script(tmp_path, {})
    assert found.returncode == 1
    assert found.stdout == "the image has neither mariadbd nor mysqld\n"


def _run_script(folder: Path, programs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the start script with programs that write down how they were called, and the data in a folder."""
    bin_, data = folder / "bin", folder / "data"
    for one in (bin_, data):
        one.mkdir(exist_ok=True)
    for name, about in {**programs, **({"mysql": ""} if programs else {})}.items():
        (bin_ / name).write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{about}"; else echo "{name} $*" >>{folder}/calls; fi\n'
        )
        (bin_ / name).chmod(0o755)
    for tool in TOOLS:
        if not (bin_ / tool).exists():
            (bin_ / tool).symlink_to(str(shutil.which(tool)))
    command, environment = MysqlServers("mysql-single", 1, {}).program("n1")
    script = command[2].replace("/data", str(data)).replace("/prepared", f"{folder}/prepared")
    script = script.replace("FAKETIME_LIBRARY=/", "FAKETIME_LIBRARY=/nowhere/")
    everything = {**environment, "PATH": str(bin_)}  # this machine may have a server of its own
    return subprocess.run(
        ["/bin/sh", "-c", script, *command[3:]], env=everything, capture_output=True, text=True, check=False
    )
