//! Distributes GRE tunnels (IP protocol 47) over healthy backends by rendezvous hashing.

#![forbid(unsafe_code)]

pub mod config;
