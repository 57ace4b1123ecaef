"""What becomes of a message."""

import enum

__all__ = ["Outcome"]


class Outcome(enum.Enum):
    """What became of a message: exactly one of these, once."""

    DELIVERED = "delivered"
    """The receiving application has taken it."""
    PROCESSED = "processed"
    """The receiving application has acted on it: for a message that was sent with ``confirm="processed"``."""
    REJECTED = "rejected"
    """The receiving application does not take it, and never gets it again."""
    EXPIRED = "expired"
    """Its deadline came first: certainly never delivered."""
    CANCELLED = "cancelled"
    """It was withdrawn, and the receiver has not taken it: certainly never delivered."""
    REFUSED = "refused"
    """The peer does not take it, and has said why: certainly never delivered."""
    UNKNOWN = "unknown"
    """One of the two sides no longer knows: it was delivered once or not at all."""
    KEPT = "kept"
    """This node has ended first: the next life of its identity goes on with the message."""

    @property
    def has_it(self) -> bool:
        """Whether the receiving application has the message."""
        return self in (Outcome.DELIVERED, Outcome.PROCESSED)

    @property
    def has_it_not(self) -> bool:
        """Whether the receiving application certainly has not acted on the message, and never will."""
        return self in (Outcome.REJECTED, Outcome.EXPIRED, Outcome.CANCELLED, Outcome.REFUSED)
