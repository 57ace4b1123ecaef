//! Calls with types, and through services, over real sockets.
#![cfg(all(feature = "serde", feature = "tower"))]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::common::{builder, nobody, pair, within};
use bytes::Bytes;
use exonet::call::{CallService, Failure, ReplyStatus, Request};
use exonet::error::{CallError, SendError, TypedError};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Transfer {
    amount: i64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Refusal {
    Short { missing: i64 },
    Stranger,
}

#[tokio::test]
async fn errors_arrive_typed() {
    let (alice, bob) = pair().await;
    let friend = alice.id();
    let transfer = move |id: exonet::call::CallId, Transfer { amount }| async move {
        if id.caller != friend {
            return Err(Refusal::Stranger);
        }
        if amount > 100 { Err(Refusal::Short { missing: amount - 100 }) } else { Ok(100 - amount) }
    };
    let _serving = bob.serve_typed_by("transfer", transfer).start().unwrap();
    let to = bob.peer_addr();
    within(async {
        let call = |amount| alice.peer(&to).call_typed::<_, i64, Refusal>("transfer", &Transfer { amount });
        assert_eq!(call(40).early(false).await.unwrap(), 60);
        let started = call(41).start().await.unwrap();
        assert_eq!(started.await.unwrap(), 59);
        let to_nobody = nobody().await;
        let call_nobody = alice.peer(&to_nobody).call_typed::<_, i64, Refusal>("transfer", &1).early(false);
        let started = call_nobody.start().await.unwrap();
        assert_eq!((started.id(), started.cancel()), (None, Ok(())));
        assert!(matches!(started.await, Err(TypedError::Call(CallError::Cancelled))));
        let refused = call(140).deadline(Duration::from_secs(30)).await;
        assert!(
            matches!(refused, Err(TypedError::Application(Refusal::Short { missing: 40 }))),
            "{refused:?}"
        );

        // Any peer that writes JSON may call.
        let mut reply = alice.peer(&to).call("transfer", r#"{"amount":1}"#).await.unwrap();
        assert_eq!(reply.body.bytes(100).await.unwrap(), "99");
        let bad = alice
            .peer(&to)
            .call_typed::<_, i64, Refusal>("transfer", "nothing of the kind")
            .await
            .unwrap_err();
        assert!(bad.has_not_run());
        assert!(matches!(bad, TypedError::Call(CallError::Failed { status: ReplyStatus::BAD_REQUEST, .. })));
        let other =
            alice.peer(&to).call_typed::<_, String, Refusal>("transfer", &Transfer { amount: 1 }).await;
        assert!(
            matches!(&other, Err(error @ TypedError::Answer { .. }) if !error.has_not_run()),
            "{other:?}"
        );
        let other = alice.peer(&to).call_typed::<_, i64, String>("transfer", &Transfer { amount: 141 }).await;
        assert!(matches!(other, Err(TypedError::Answer { .. })), "{other:?}");
        let none = alice.peer(&to).call_typed::<_, i64, Refusal>("none", &1).await;
        assert!(matches!(none, Err(TypedError::Call(error)) if error.has_not_run()));
    })
    .await;
}

#[tokio::test]
async fn a_service_takes_a_call_only_when_it_is_ready() {
    let (alice, bob) = pair().await;
    let (tell, mut begun) = mpsc::unbounded_channel();
    let open = Arc::new(Semaphore::new(0));
    let let_in = Arc::clone(&open);
    let gate = service_fn(move |request: Request| {
        let (tell, let_in) = (tell.clone(), Arc::clone(&let_in));
        async move {
            tell.send(request.id).unwrap();
            let_in.acquire().await.unwrap().forget();
            if request.body.is_empty() { Err(Failure::new(9, "nothing")) } else { Ok(Bytes::from("let in")) }
        }
    });
    let gate = ServiceBuilder::new().concurrency_limit(2).service(gate);
    let _serving = bob.serve_service("gate", gate).start().unwrap();
    let slow = service_fn(|_: Request| std::future::pending::<Result<Bytes, BoxError>>());
    let slow = ServiceBuilder::new().timeout(Duration::from_millis(20)).service(slow);
    let _slow = bob.serve_service("slow", slow).start().unwrap();
    within(async {
        let calls = CallService::new(alice.peer(bob.peer_addr()), "gate");
        let mut replies = Vec::new();
        for body in ["1", "2", "3", ""] {
            replies.push(tokio::spawn(calls.clone().oneshot(Bytes::from(body))));
        }
        begun.recv().await.unwrap();
        begun.recv().await.unwrap();
        let late = CallService::new(alice.peer(bob.peer_addr()), "slow").oneshot(Bytes::new()).await;
        let Err(CallError::Failed { status: ReplyStatus::ERROR, mut body, .. }) = late else {
            panic!("{late:?}")
        };
        assert_eq!(body.bytes(100).await.unwrap(), "request timed out");
        while bob.stats().waiting < 2 {
            tokio::task::yield_now().await;
        }
        assert!(begun.try_recv().is_err(), "two run, the others have not been taken");
        open.add_permits(4);
        let last = replies.pop().unwrap().await.unwrap();
        assert!(matches!(last, Err(CallError::Failed { status: ReplyStatus(9), .. })), "{last:?}");
        for reply in replies {
            assert_eq!(reply.await.unwrap().unwrap().body.bytes(100).await.unwrap(), "let in");
        }
    })
    .await;
}

/// A service that is ready once, and then never again.
struct Once(bool);

impl Service<Request> for Once {
    type Response = Bytes;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Bytes, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(if std::mem::replace(&mut self.0, true) { Err("worn out".into()) } else { Ok(()) })
    }

    fn call(&mut self, _: Request) -> Self::Future {
        std::future::ready(Ok(Bytes::from("once")))
    }
}

#[tokio::test]
async fn a_service_that_ends_is_served_no_more() {
    let (alice, bob) = pair().await;
    let _serving = bob.serve_service("once", Once(false)).start().unwrap();
    within(async {
        let to = bob.peer_addr();
        assert_eq!(alice.peer(&to).call("once", "").await.unwrap().body.bytes(9).await.unwrap(), "once");
        let over = alice.peer(&to).call("once", "").await;
        assert!(
            matches!(over, Err(CallError::Failed { status: ReplyStatus::NO_SUCH_METHOD, .. })),
            "{over:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_call_service_is_ready_when_there_is_room() {
    let small = builder().limits(|limits| limits.queued_messages = 2).build().await.unwrap();
    let away = nobody().await;
    within(async {
        let mut calls: Vec<_> = (0..3).map(|_| CallService::new(small.peer(away.clone()), "gate")).collect();
        calls[0].ready().await.unwrap();
        calls[1].ready().await.unwrap();
        let third = poll_fn(|cx| Poll::Ready(calls[2].poll_ready(cx).is_pending())).await;
        assert!(third, "both places are kept");
        let unready = calls[2].call(Bytes::new()).await;
        assert!(matches!(unready, Err(CallError::Refused(SendError::Full))), "{unready:?}");
        let made = calls[0].call(Bytes::new());
        calls.remove(1);
        calls[1].ready().await.unwrap();
        // A call that is dropped, as by a time limit, is given up: it makes room.
        drop(made);
        assert!(small.flush(None).await.is_empty());
    })
    .await;
}
