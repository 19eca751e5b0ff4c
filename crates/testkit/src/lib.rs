//! What tests and the demo stand on: hosts in network namespaces, guarded processes, waiting with
//! a deadline, and test packets built without the product's own parsers.

pub mod bed;
pub mod lab;
pub mod packet;
pub mod process;
pub mod wait;
