//! What can go wrong between userspace and the kernel's side.

use std::io;

/// Why the packet core could not be loaded, attached or reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object is damaged, or the kernel refuses a map or program.
    #[error("the kernel does not take the packet core: {0}")]
    Load(#[from] aya::EbpfError),
    /// The verifier's complaint, or a refused attachment.
    #[error("program {program}: {source}")]
    Program {
        /// The stage.
        program: String,
        /// The kernel's or verifier's words.
        source: aya::programs::ProgramError,
    },
    /// A map refuses a record.
    #[error("map {map}: {source}")]
    Map {
        /// The map.
        map: &'static str,
        /// The kernel's words.
        source: aya::maps::MapError,
    },
    /// The object has no such program or map: it was built from other sources.
    #[error("the object has no {0}: rebuild it with `cargo xtask ebpf`")]
    Missing(&'static str),
    /// A map's memory cannot be shared.
    #[error("map {map} cannot be mapped into memory: {source}")]
    Memory {
        /// The map.
        map: &'static str,
        /// The kernel's words.
        source: io::Error,
    },
    /// Pins cannot be kept there.
    #[error("{}: {source}", directory.display())]
    Pins {
        /// Where.
        directory: std::path::PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel's clock cannot be asked.
    #[error("the kernel does not tell its clock: {source}")]
    Clock {
        /// The kernel's words.
        source: io::Error,
    },
    /// Another program is attached to the interface.
    #[error(
        "interface {interface} already has an XDP program (id {id}): detach it first, as with `ip link set {interface} xdp off`"
    )]
    Foreign {
        /// The interface.
        interface: String,
        /// The program's id.
        id: u32,
    },
    /// Packets can be captured for one at a time.
    #[error("somebody else captures packets of this node, or did a moment ago")]
    Capturing,
    /// An interface's program is not ours.
    #[error("the XDP program with id {program} is not the packet core of lb-node")]
    NotOurs {
        /// The program's id.
        program: u32,
    },
    /// An interface's program was built from other sources.
    #[error(
        "the packet core with program id {program} has no map {map}: it is of another build of \
         lb-node than this one"
    )]
    OtherBuild {
        /// The program's id.
        program: u32,
        /// What it lacks.
        map: &'static str,
    },
    /// The records of a map are of another size.
    #[error("map {map} has other records: it is of another build of lb-node than this one")]
    OtherLayout {
        /// The map.
        map: &'static str,
    },
    /// The interface cannot run the program.
    #[error("interface {interface}: {source}")]
    Attach {
        /// The interface.
        interface: String,
        /// The kernel's words.
        source: io::Error,
    },
}
