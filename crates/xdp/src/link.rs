//! One interface that runs the packet core.

use crate::Error;
use aya::programs::links::FdLink;
use aya::programs::xdp::{XdpLink, XdpMode};
use aya::programs::{ProgramError, Xdp};

/// How an interface runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, on the frame as it came.
    Native,
    /// After the kernel has made its own buffer: several times slower.
    Generic,
}

/// The attachment; dropping it ends it.
#[derive(Debug)]
pub struct Link {
    _link: FdLink,
    mode: Mode,
}

impl Link {
    /// How the interface runs the program.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Attaches the program to the interface of this name and index.
    pub(crate) fn attach(
        program: &mut Xdp,
        interface: &str,
        index: u32,
        mode: Mode,
    ) -> Result<Self, Error> {
        let flags = match mode {
            Mode::Native => XdpMode::Driver,
            Mode::Generic => XdpMode::Skb,
        };
        let refused = |source| Error::Program { program: format!("on {interface}"), source };
        let id = program.attach_to_if_index(index, flags).map_err(refused)?;
        let link: XdpLink = program.take_link(id).map_err(refused)?;
        // Without a link file descriptor the attachment would be the old kind, which nothing but
        // a detach by name ends.
        let link: FdLink = link.try_into().map_err(|error| {
            refused(ProgramError::IOError(std::io::Error::other(format!("{error}"))))
        })?;
        Ok(Self { _link: link, mode })
    }
}
