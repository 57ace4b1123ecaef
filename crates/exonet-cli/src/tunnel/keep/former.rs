//! The connections of former runs.

use std::sync::Arc;

use super::{About, Keeper, Order, Tales};
use crate::tunnel::carry::Why;
use crate::tunnel::event::Tell;
use crate::tunnel::wire::Refusal;

/// Takes over the connections of former runs that get a `seat`, and drops the others. Then hears what the keeper says.
pub(crate) fn take_over<S: Send + 'static>(
    keeper: &Arc<Keeper>,
    (abouts, tales): (Vec<About>, Tales),
    tell: &Tell,
    seat: impl Fn(&About) -> Result<S, Refusal>,
) {
    for about in abouts {
        let key = about.key();
        let numbered = tell.number(about.story.clone());
        match seat(&about) {
            Ok(seat) => {
                numbered.resumed(about.address.clone());
                keeper.adopt(about, numbered.told(seat));
            }
            Err(refusal) => {
                keeper.adopt(about, numbered.told(()));
                let why = Why::Refused(refusal);
                let (why, text) = (why.word().to_owned(), why.to_string());
                keeper.order(Order::Drop { key, why, text });
            }
        }
    }
    tokio::spawn(Arc::clone(keeper).listen(tales, tell.clone()));
}
