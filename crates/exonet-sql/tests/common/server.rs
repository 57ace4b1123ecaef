//! A PostgreSQL server of a test's own: in a temporary folder, on a socket there, and on no port. It ends, and its folder goes, when
//! this process ends, however it ends.
#![allow(dead_code)] // each user has its own part

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};

/// `nobody`: `initdb` refuses root.
const NOBODY: u32 = 65_534;

pub(crate) struct Server {
    home: PathBuf,
    bin: PathBuf,
    running: Option<(Child, ChildStdin)>,
}

/// The newest programs of PostgreSQL that Debian's packages or the `PATH` have.
pub(crate) fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").ok();
    let mut found: Vec<_> =
        debian.into_iter().flatten().flatten().map(|entry| entry.path().join("bin")).collect();
    found.sort_by_key(|path| {
        path.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse::<u32>().ok())
    });
    found.reverse();
    found.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    found.into_iter().find(|path| path.join("initdb").is_file() && path.join("postgres").is_file())
}

impl Server {
    /// Starts a server. `settings` are lines of its configuration. None: there are no programs.
    pub(crate) async fn start(settings: &str) -> io::Result<Option<Self>> {
        let Some(bin) = programs() else { return Ok(None) };
        let home = tempfile::Builder::new().prefix("exonet-pg").tempdir()?.keep();
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755))?;
        let mut server = Self { home, bin, running: None };
        let data = server.home.join("data");
        std::fs::create_dir(&data)?;
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700))?;
        if server.is_root()? {
            std::os::unix::fs::chown(&data, Some(NOBODY), Some(NOBODY))?;
        }
        let mut initdb = server.command("initdb")?;
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "-D"]).arg(&data);
        let made = initdb.stdin(Stdio::null()).output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        let mut config = std::fs::read_to_string(data.join("postgresql.conf"))?;
        config += &format!(
            "\nlisten_addresses = ''\nunix_socket_directories = '{}'\nmax_connections = 200\n{settings}\n",
            data.display()
        );
        std::fs::write(data.join("postgresql.conf"), config)?;
        server.run().await?;
        Ok(Some(server))
    }

    fn is_root(&self) -> io::Result<bool> {
        Ok(std::fs::metadata(&self.home)?.uid() == 0)
    }

    fn command(&self, program: &str) -> io::Result<Command> {
        let program = self.bin.join(program);
        if !self.is_root()? {
            return Ok(Command::new(program));
        }
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]);
        command.arg(program);
        Ok(command)
    }

    /// Runs the server until its standard input is closed, as the end of this process does; then it ends at once.
    pub(crate) async fn run(&mut self) -> io::Result<()> {
        const UNTIL_CLOSED: &str = r#""$@" & server=$!; cat >/dev/null; kill -QUIT $server 2>/dev/null; wait $server
            test -e "$0/again" || { cd / && rm -rf "$0"; }"#;
        let postgres = self.command("postgres")?;
        let _ = std::fs::remove_file(self.home.join("again"));
        let log = std::fs::File::create(self.home.join("log"))?;
        let mut child = Command::new("sh")
            .args(["-c", UNTIL_CLOSED])
            .arg(&self.home)
            .arg(postgres.get_program())
            .args(postgres.get_args())
            .arg("-D")
            .arg(self.home.join("data"))
            .current_dir(&self.home)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let stdin = child.stdin.take().ok_or_else(|| io::Error::other("no standard input"))?;
        self.running = Some((child, stdin));
        for _ in 0..1_000 {
            if PgConnection::connect_with(&self.options("postgres")).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Err(io::Error::other(std::fs::read_to_string(self.home.join("log"))?))
    }

    /// Ends the server at once, as a crash does. [`Self::run`] starts it again.
    pub(crate) fn crash(&mut self) -> io::Result<()> {
        std::fs::write(self.home.join("again"), "")?;
        self.end();
        Ok(())
    }

    fn end(&mut self) {
        if let Some((mut child, stdin)) = self.running.take() {
            drop(stdin);
            let _ = child.wait();
        }
    }

    pub(crate) fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new().socket(self.home.join("data")).username("postgres").database(database)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home.join("data")
    }

    /// A new database.
    pub(crate) async fn database(&self, name: &str, connections: u32) -> Result<PgPool, sqlx::Error> {
        let mut conn = PgConnection::connect_with(&self.options("postgres")).await?;
        sqlx::query(&format!("create database {name}")).execute(&mut conn).await?;
        PgPoolOptions::new().max_connections(connections).connect_with(self.options(name)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}
