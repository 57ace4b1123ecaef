//! Local ports that lead to the far end.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::near::Near;
use crate::tunnel::keep::About;
use crate::tunnel::{
    Closed, HANDSHAKE, Opened, SocksRequest, Target, Way, Why, accept, carry_opened, finish, hold,
};

/// The target of the connections of a port.
#[derive(Clone, Debug)]
pub(super) enum Leads {
    To(Target),
    /// The target that each client names through SOCKS5.
    WhereTheySay,
}

/// Accepts connections. Never returns.
pub(super) async fn take(near: Arc<Near>, listener: TcpListener, leads: Leads) {
    loop {
        // The semaphore is never closed.
        let Ok(seat) = Arc::clone(&near.seats).acquire_owned().await else { return };
        let (socket, from) = accept(&listener).await;
        tokio::spawn(carry(Arc::clone(&near), socket, from, leads.clone(), seat));
    }
}

async fn carry(
    near: Arc<Near>,
    mut socket: TcpStream,
    from: SocketAddr,
    leads: Leads,
    seat: OwnedSemaphorePermit,
) {
    let (way, to) = match leads {
        Leads::To(to) => (Way::Local, to),
        Leads::WhereTheySay => match timeout(HANDSHAKE, SocksRequest::read(&mut socket)).await {
            Ok(Ok(request)) => (Way::Socks, request.target),
            Ok(Err(error)) => return tracing::info!("{from}: {error}"),
            Err(_) => return tracing::info!("{from}: the client sends nothing"),
        },
    };
    hold(&socket);
    let story = near.story(way, from.to_string(), &to);
    let numbered = near.tell.number(story.clone());
    let token = near.token();
    let opened = near.open(&to, token).await;
    let told = match (way, &opened) {
        (Way::Socks, Ok(_)) => SocksRequest::reply(&mut socket, None).await,
        (Way::Socks, Err(why)) => SocksRequest::reply(&mut socket, Some(why.code())).await,
        _ => Ok(()),
    };
    let explain = |why: &Why| near.explain(&to.to_string(), why);
    let closed = match (opened, told) {
        (Ok((opened, address)), Ok(())) => {
            numbered.opened(address.clone());
            let about = token.map(|token| About { token, opener: true, story, address });
            let kept = near.road().zip(about);
            return carry_opened(opened, socket, kept, near.course, (numbered.told(seat), explain)).await;
        }
        (Ok((Opened { stream, .. }, _)), Err(error)) => {
            let (mut sender, receiver) = stream.split();
            // If the node is closed, nothing can be sent.
            let _ = sender.reset().await;
            receiver.stop("the client has disconnected");
            Closed::unopened(Why::Local(error))
        }
        // A SOCKS client has got the reply, so its connection ends without a reset.
        (Err(why), _) => Closed { abort: way != Way::Socks, ..Closed::unopened(why) },
    };
    finish(&socket, closed.abort);
    drop((socket, seat));
    let text = explain(&closed.why);
    numbered.closed(&closed, text);
}
