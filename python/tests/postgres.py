"""What tests with databases need: libraries, and a server of PostgreSQL in a temporary folder. It listens on a socket there and on no
port. A test that lacks either fails."""

import glob
import importlib
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import time

import pytest

# Runs the server until the standard input is closed, which the end of the tests does, however it comes. Then removes its folder.
UNTIL_CLOSED = """
"$@" & server=$!; cat >/dev/null; kill -QUIT $server 2>/dev/null; wait $server; cd / && rm -rf "$0"
"""


def programs():
    """The newest programs of PostgreSQL that Debian's packages or the PATH have."""
    debian = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]), reverse=True)
    for folder in [*debian, *os.get_exec_path()]:
        if all(os.path.isfile(os.path.join(folder, name)) for name in ("initdb", "postgres")):
            return folder
    return None


class Server:
    """A server with a database for each test."""

    def __init__(self, folder):
        import psycopg

        self.psycopg, self.count = psycopg, 0
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="exonet-pg"))
        self.home.chmod(0o755)
        self.data = self.home / "data"
        self.data.mkdir(mode=0o700)
        # `initdb` refuses root.
        self.as_user = []
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.data, nobody.pw_uid, nobody.pw_gid)
            ids = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}")
            self.as_user = ["setpriv", *ids, "--clear-groups", "--"]
        self.run(f"{folder}/initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "-D", self.data)
        with open(self.data / "postgresql.conf", "a") as config:
            config.write(f"\nlisten_addresses = ''\nunix_socket_directories = '{self.data}'\nmax_connections = 200\nfsync = off\n")
        command = ["sh", "-c", UNTIL_CLOSED, self.home, *self.as_user, f"{folder}/postgres", "-D", self.data]
        with open(self.home / "log", "w") as log:
            self.process = subprocess.Popen(command, cwd=self.home, stdin=subprocess.PIPE, stdout=log, stderr=log)
        for _ in range(1_000):
            try:
                psycopg.connect(self.conninfo("postgres")).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.02)
        raise RuntimeError((self.home / "log").read_text())

    def run(self, *command):
        subprocess.run([*self.as_user, *command], check=True, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True)

    def conninfo(self, name):
        return f"host={self.data} user=postgres dbname={name}"

    def url(self, name):
        return f"postgresql://postgres@/{name}?host={self.data}"

    def database(self):
        """The URL of a new database."""
        self.count += 1
        name = f"test{self.count}"
        with self.psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name}")
        return self.url(name)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


def needs(name):
    """A library that the tests need, and the package does not."""
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.fail(f"{name} is not installed: install what the extra `test` in python/pyproject.toml lists, or run python/test.sh")


@pytest.fixture(scope="session")
def server():
    """The server, for all tests."""
    needs("psycopg")
    folder = programs()
    if folder is None:
        pytest.fail("PostgreSQL is not installed: install the server (Debian: `apt-get install postgresql`), or put `initdb` into the PATH")
    server = Server(folder)
    yield server
    server.close()
