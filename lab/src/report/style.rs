//! How each peer looks in every figure: colours that are told apart also without seeing red or green (Okabe and Ito).

/// A line and what marks its points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) colour: &'static str,
    /// Of SVG's `stroke-dasharray`.
    pub(super) dash: &'static str,
    pub(super) width: f64,
    pub(super) marker: Marker,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Marker {
    Circle,
    Square,
    Diamond,
    Triangle,
}

/// Colours are for families; CUBIC is dashed. Exonet is the thick one.
pub(super) fn of(peer: &str) -> Style {
    let (colour, marker) = match peer.split('-').next().unwrap_or_default() {
        "exonet" => ("#d55e00", Marker::Circle),
        "tcp" => ("#0072b2", Marker::Square),
        "quinn" => ("#009e73", Marker::Diamond),
        "sctp" => ("#cc79a7", Marker::Triangle),
        "enet" => ("#e69f00", Marker::Square),
        "grpc" => ("#cc79a7", Marker::Circle),
        "kcp" => ("#56b4e9", Marker::Triangle),
        "udt" => ("#8c8c8c", Marker::Diamond),
        "zmq" => ("#000000", Marker::Circle),
        _ => ("#5a5a5a", Marker::Triangle),
    };
    let (dash, marker) = match peer {
        // The modes of a group cross each other.
        "exonet-balanced" => ("8 3", Marker::Diamond),
        "exonet-any" => ("2 2", Marker::Triangle),
        "exonet-quorum" => ("5 3", Marker::Square),
        peer if peer.contains("cubic") || peer == "exonet-calls" => ("5 3", marker),
        peer if peer.ends_with("-1") || peer.ends_with("single") || peer.ends_with("0rtt") => ("2 2", marker),
        _ => ("none", marker),
    };
    Style { colour, dash, width: if peer == "exonet" { 4.0 } else { 1.6 }, marker }
}
