//! The binary as a process, over real sockets and a real disk.

#[cfg(test)]
mod common;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod definitions;
#[cfg(test)]
mod delays;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod space;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod traffic;
