//! One interface that runs the packet core.

use crate::{Error, Pins};
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::xdp::{XdpLink, XdpMode};
use aya::programs::{ProgramError, Xdp};
use std::io;
use std::path::Path;

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
    _link: Held,
    mode: Mode,
    kept: bool,
}

/// What holds the attachment.
#[derive(Debug)]
#[expect(dead_code, reason = "held open")]
enum Held {
    Open(FdLink),
    Pinned(PinnedLink),
}

impl Link {
    /// Whether the program has replaced that of an earlier process.
    #[must_use]
    pub fn was_kept(&self) -> bool {
        self.kept
    }

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
        pin: Option<&Path>,
    ) -> Result<Self, Error> {
        let refused = |source| Error::Program { program: format!("on {interface}"), source };
        if let Some(pin) = pin
            && let Ok(pinned) = PinnedLink::from_pin(pin)
        {
            let link = XdpLink::try_from(FdLink::from(pinned));
            let replaced = link.map(|link| program.attach_to_link(link));
            if let Ok(Ok(id)) = replaced {
                let link = descriptor(program.take_link(id).map_err(refused)?).map_err(refused)?;
                return Ok(Self { _link: Held::Open(link), mode, kept: true });
            }
            // The interface that it was for has gone, perhaps for another of its name.
            let _gone = std::fs::remove_file(pin);
        }
        let flags = match mode {
            Mode::Native => XdpMode::Driver,
            Mode::Generic => XdpMode::Skb,
        };
        let id = program.attach_to_if_index(index, flags).map_err(refused)?;
        let link = descriptor(program.take_link(id).map_err(refused)?).map_err(refused)?;
        let link = match pin {
            None => Held::Open(link),
            Some(pin) => Held::Pinned(link.pin(pin).map_err(|error| Error::Pins {
                directory: pin.to_owned(),
                source: io::Error::other(error),
            })?),
        };
        Ok(Self { _link: link, mode, kept: false })
    }

    /// The program that a pinned link runs, if there is such a link.
    #[must_use]
    pub fn pinned_program(pins: &Pins, interface: &str) -> Option<u32> {
        let link = PinnedLink::from_pin(pins.link(interface)).ok()?;
        Some(FdLink::from(link).info().ok()?.program_id())
    }
}

/// The link as a descriptor: an attachment of the old kind would have none, and nothing but a
/// detach by name would end it.
fn descriptor(link: XdpLink) -> Result<FdLink, ProgramError> {
    link.try_into().map_err(|error| ProgramError::IOError(io::Error::other(format!("{error}"))))
}
