//! The dev server from outside: through a socket, as its clients see it; its program; its README; and its own layers.
//! One program, so that they are linked once.

mod client;
mod connections;
mod freeze;
mod fuzz;
mod layers;
mod lock_scenarios;
mod procedures;
mod program;
mod readme;
mod robustness;
mod wire;
