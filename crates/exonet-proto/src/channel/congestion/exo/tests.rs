//! Exo's rules, fed with acknowledgements of a path that is described by numbers.
