//! The call with which a receiver asks which rows are gone, so that it can delete the inbox rows of these messages.

use std::sync::Arc;

use exonet::Node;
use exonet::call::{Failure, Request, Serving};
use exonet::error::ServeError;

use crate::Key;
use crate::database::{Store, Value};
use crate::wire::{GONE, KEYS_BYTES, decode_keys, encode_keys};

/// Serves the call. If the node already has a relay, this fails, since the method is already served.
pub(crate) fn serve(store: &Arc<dyn Store>, node: &Node) -> Result<Serving, ServeError> {
    let store = Arc::clone(store);
    let answer = move |request| {
        let store = Arc::clone(&store);
        async move { answer(&*store, request).await }
    };
    node.serve(GONE, answer).concurrency(2).start()
}

async fn answer(store: &dyn Store, mut request: Request) -> Result<bytes::Bytes, Failure> {
    let body = request.body.bytes(KEYS_BYTES).await?;
    let keys = decode_keys(&body).map_err(Failure::error)?;
    let mut conn = store.acquire().await.map_err(Failure::error)?;
    // One statement, so that rows and former owners are read at the same time.
    let keys = keys.into_iter().map(Key::to_vec).collect();
    let gone = conn
        .fetch(store.dialect().statements().gone, vec![Value::Blobs(keys)])
        .await
        .map_err(Failure::error)?;
    let gone: Vec<_> = gone.into_iter().filter_map(|mut row| Key::read(&row.bytes().ok()?)).collect();
    Ok(encode_keys(&gone))
}
