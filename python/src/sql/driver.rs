//! The application's driver, as `exonet-sql` uses it.
//!
//! A statement is run by Python on a thread that may block. So no thread of the runtime waits for the interpreter, and a
//! database that is slow does not delay a node.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use exonet_sql::host::{Cells, Connection, Dialect, Store, StoreError, Transaction, Value, Waiting};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::runtime;

/// The number of connections of one relay or inbox, besides those of handlers' transactions.
const CONNECTIONS: usize = 4;

/// How long the end of the interpreter waits for statements that are running.
const LAST: Duration = Duration::from_secs(10);

/// The number of calls into Python that are running.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Whether the interpreter is ending, so that no statement may begin any more.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Waits until no thread runs a statement, and lets none begin. A thread that calls into Python when the interpreter
/// ends would be ended in the midst of Rust code.
#[pyfunction]
pub(crate) fn _sql_at_exit(py: Python<'_>) {
    ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let until = Instant::now() + LAST;
        while RUNNING.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// How long after an insert the thread that listens asks SQLite more often whether the transaction was committed.
const SOON: Duration = Duration::from_millis(50);

/// When this process has last inserted a row, in milliseconds since [`BEGAN`].
static INSERTED: AtomicU64 = AtomicU64::new(0);
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now() -> u64 {
    u64::try_from(BEGAN.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Notes that this process has inserted a row.
pub(super) fn inserted() {
    INSERTED.store(now(), Ordering::Relaxed);
}

/// In the child of a fork: the threads of the parent do not exist here.
pub(crate) fn forked() {
    RUNNING.store(0, Ordering::SeqCst);
}

/// A call into Python, while it runs.
struct Call;

impl Call {
    fn begin() -> Option<Self> {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let call = Self;
        (!ENDING.load(Ordering::SeqCst)).then_some(call)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

fn failed(message: impl Into<String>) -> StoreError {
    StoreError::Driver { code: None, message: message.into() }
}

/// The error of a driver.
fn driver_error(py: Python<'_>, error: &PyErr) -> StoreError {
    let value = error.value(py);
    let code = value.getattr_opt(intern!(py, "sqlstate")).ok().flatten();
    let code = code.and_then(|code| code.extract::<String>().ok());
    let message = value.str().map_or_else(|_| error.to_string(), |text| text.to_string());
    let message = if message.is_empty() { value.get_type().to_string() } else { message };
    StoreError::Driver { code, message }
}

/// Calls into Python on a thread that may block.
async fn ask<T: Send + 'static>(
    call: impl FnOnce(Python<'_>) -> PyResult<T> + Send + 'static,
) -> Result<T, StoreError> {
    let asked = tokio::task::spawn_blocking(move || {
        let Some(_running) = Call::begin() else { return Err(failed("the interpreter is ending")) };
        let answer = Python::try_attach(|py| call(py).map_err(|error| driver_error(py, &error)));
        answer.unwrap_or_else(|| Err(failed("the interpreter is ending")))
    });
    asked.await.unwrap_or_else(|_| Err(failed("the thread of a statement has ended")))
}

/// How to connect to a database: an object `Database` of `exonet.sql`.
pub(crate) struct Driver {
    runtime: Handle,
    object: Arc<Py<PyAny>>,
    dialect: Dialect,
    places: Arc<Semaphore>,
    free: Arc<Mutex<Vec<Arc<Py<PyAny>>>>>,
}

impl Driver {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name: String = object.getattr(intern!(object.py(), "dialect"))?.extract()?;
        Ok(Self {
            runtime: runtime::handle()?,
            object: Arc::new(object.clone().unbind()),
            dialect: super::dialect(&name)?,
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            free: Arc::default(),
        })
    }

    async fn open(&self) -> Result<Open, StoreError> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| failed("the database is closed"))?;
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let object = match kept {
            Some(object) => object,
            None => {
                let database = Arc::clone(&self.object);
                ask(move |py| database.call_method0(py, intern!(py, "connect")).map(Arc::new)).await?
            }
        };
        Ok(Open {
            runtime: self.runtime.clone(),
            object: Some(object),
            dialect: self.dialect,
            is_idle: true,
            free: Arc::clone(&self.free),
            _place: place,
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let free = std::mem::take(&mut *self.free.lock().unwrap_or_else(PoisonError::into_inner));
        free.into_iter().for_each(|object| close(&self.runtime, object));
    }
}

/// Closes a connection, on a thread that may block.
fn close(runtime: &Handle, object: Arc<Py<PyAny>>) {
    runtime.spawn(async move {
        // An error has no consequence: nothing uses the connection any more.
        drop(ask(move |py| object.call_method0(py, intern!(py, "close")).map(drop)).await);
    });
}

/// A connection that is in use.
struct Open {
    runtime: Handle,
    /// None: it is given back.
    object: Option<Arc<Py<PyAny>>>,
    dialect: Dialect,
    /// Whether no statement runs on it, none has failed, and no transaction is open. Otherwise it is not used again.
    is_idle: bool,
    free: Arc<Mutex<Vec<Arc<Py<PyAny>>>>>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        if self.is_idle {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(object);
        } else {
            close(&self.runtime, object);
        }
    }
}

impl Open {
    async fn call<T: Send + 'static>(
        &mut self,
        method: &'static str,
        sql: &'static str,
        args: Vec<Value>,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(object) = self.object.clone() else { return Err(failed("the connection is closed")) };
        let args = self.dialect.arguments(args);
        let was_idle = std::mem::replace(&mut self.is_idle, false);
        let answer = ask(move |py| {
            let args = arguments(py, args)?;
            read(object.bind(py).call_method1(method, (sql, args))?.as_any())
        });
        let answer = answer.await?;
        self.is_idle = was_idle;
        Ok(answer)
    }
}

/// Arguments of a statement, as Python takes them.
pub(super) fn arguments(py: Python<'_>, args: Vec<Value>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for arg in args {
        match arg {
            Value::Null => list.append(py.None())?,
            Value::Int(int) => list.append(int)?,
            Value::Bytes(bytes) => list.append(bytes.map(|bytes| PyBytes::new(py, &bytes)))?,
            Value::Text(text) => list.append(text)?,
            Value::Ints(ints) => list.append(ints)?,
            Value::Blobs(blobs) => {
                let blobs = blobs.iter().map(|blob| PyBytes::new(py, blob));
                list.append(PyList::new(py, blobs.collect::<Vec<_>>())?)?;
            }
        }
    }
    Ok(list)
}

/// A row of a result.
fn row(row: &Bound<'_, PyAny>) -> PyResult<Cells> {
    let mut cells = Vec::new();
    for cell in row.cast::<PyTuple>()?.iter() {
        cells.push(if cell.is_none() {
            Value::Null
        } else if let Ok(int) = cell.cast::<PyInt>() {
            Value::Int(int.extract()?)
        } else if let Ok(text) = cell.cast::<PyString>() {
            Value::Text(Some(text.extract()?))
        } else {
            Value::Bytes(Some(crate::args::backed("a column", &cell)?.to_vec()))
        });
    }
    Ok(Cells::from(cells))
}

impl Connection for Open {
    fn execute<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, u64> {
        Box::pin(self.call("execute", sql, args, |count| count.extract()))
    }

    fn fetch<'a>(&'a mut self, sql: &'static str, args: Vec<Value>) -> Waiting<'a, Vec<Cells>> {
        Box::pin(self.call("fetch", sql, args, |rows| rows.try_iter()?.map(|cells| row(&cells?)).collect()))
    }
}

impl Transaction for Open {
    fn commit(mut self: Box<Self>) -> Waiting<'static, ()> {
        Box::pin(async move {
            self.execute("commit", Vec::new()).await?;
            self.is_idle = true;
            Ok(())
        })
    }
}

impl Store for Driver {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn acquire(&self) -> Waiting<'_, Box<dyn Connection>> {
        Box::pin(async { Ok(Box::new(self.open().await?) as Box<dyn Connection>) })
    }

    fn begin(&self) -> Waiting<'_, Box<dyn Transaction>> {
        Box::pin(async {
            let mut open = self.open().await?;
            let begin = match self.dialect {
                Dialect::Sqlite => "begin immediate",
                Dialect::Postgres => "begin",
            };
            open.execute(begin, Vec::new()).await?;
            open.is_idle = false;
            Ok(Box::new(open) as Box<dyn Transaction>)
        })
    }

    fn listen<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Waiting<'a, ()> {
        Box::pin(async move {
            let bell = Arc::new(Bell::default());
            let _unwanted = Unwanted(Arc::clone(&bell));
            let (database, waker) = (Arc::clone(&self.object), Waker(Arc::clone(&bell)));
            ask(move |py| database.call_method1(py, intern!(py, "listen"), (waker,)).map(drop)).await?;
            loop {
                bell.rung.notified().await;
                let lost = bell.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
                match lost {
                    Some(why) => return Err(failed(why)),
                    None => wake(),
                }
            }
        })
    }
}

/// What a relay and the thread that listens for it share.
#[derive(Default)]
struct Bell {
    rung: Notify,
    lost: Mutex<Option<String>>,
    is_unwanted: AtomicBool,
}

/// Ends the thread that listens.
struct Unwanted(Arc<Bell>);

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.0.is_unwanted.store(true, Ordering::Release);
    }
}

/// Wakes a relay: given to the thread that listens.
#[pyclass(frozen, module = "exonet._native")]
pub(crate) struct Waker(Arc<Bell>);

#[pymethods]
impl Waker {
    /// Something may have been committed.
    fn wake(&self) {
        self.0.rung.notify_one();
    }

    /// The connection is lost.
    fn lost(&self, why: String) {
        *self.0.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.0.rung.notify_one();
    }

    /// Whether this process has just inserted a row, whose transaction is about to be committed.
    #[getter]
    fn is_soon(&self) -> bool {
        Duration::from_millis(now().saturating_sub(INSERTED.load(Ordering::Relaxed))) < SOON
    }

    /// Whether anything waits for this.
    #[getter]
    fn is_wanted(&self) -> bool {
        !self.0.is_unwanted.load(Ordering::Acquire)
    }
}
