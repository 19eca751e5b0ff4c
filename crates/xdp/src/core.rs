//! The loaded programs and their maps.

use crate::events::Events;
use crate::view::{View, table, unread};
use crate::{Error, Link, Mode, Pins, sys};
use aya::maps::{Map, MapData, ProgramArray};
use aya::programs::{ProgramError, TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};
use datapath::lb::{Stage, capture};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

/// The built object, beside its source.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../ebpf/castellum.bpf.o");
/// The program that interfaces run.
const ENTER: &str = Stage::Enter.name();

/// How many records each map has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Sessions; the index has room for four times as many words.
    pub sessions: u32,
    /// Services.
    pub services: u32,
    /// Virtual and translation addresses.
    pub addresses: u32,
    /// Rows of all pools.
    pub rows: u32,
    /// Members of all pools.
    pub members: u32,
    /// Backends of all services.
    pub backends: u32,
    /// Ranges of translation addresses.
    pub sources: u32,
    /// Answers of our own that one processor sends in a tick, a quarter of a second or so.
    pub answers: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            sessions: 1 << 19,
            services: 16_384,
            addresses: 16_384,
            rows: 1 << 23,
            members: 1 << 17,
            backends: 1 << 16,
            sources: 1 << 14,
            answers: 100,
        }
    }
}

impl Sizes {
    /// Every map that outlives the process, and its records where the loader sets them.
    fn maps(&self) -> [(&'static str, Option<u32>); 20] {
        [
            ("OWNED", Some(self.addresses)),
            ("SERVICES", Some(self.services)),
            ("ORIGINS", Some(self.backends)),
            ("ROWS", Some(self.rows / 2)),
            ("MEMBERS", Some(self.members / 2)),
            ("BACKENDS", Some(self.backends)),
            ("NAMES", Some(self.backends)),
            ("TRAFFIC", Some(self.backends)),
            ("WAYS", Some(self.backends)),
            ("SOURCES", Some(self.sources)),
            ("INDEX", Some(self.buckets())),
            ("SESSIONS", Some(self.sessions)),
            ("FREE", Some(self.free_places() / 2)),
            ("SETTINGS", None),
            ("LEVELS", None),
            ("LINKS", None),
            ("DROPS", None),
            ("VERDICTS", None),
            ("BUDGET", None),
            ("SCRATCH", None),
        ]
    }

    /// Tells sizes apart: maps of other sizes are other maps.
    pub(crate) fn fingerprint(&self) -> u64 {
        let sizes = self.maps().map(|(_, records)| u64::from(records.unwrap_or(0)));
        sizes.iter().fold(0, |sum: u64, size| sum.rotate_left(7).wrapping_add(*size))
    }

    /// Buckets of the index: half of the words stay empty when every session is in use.
    #[must_use]
    pub fn buckets(&self) -> u32 {
        (self.sessions / 2).next_power_of_two().max(2)
    }

    /// Places of the ring of free sessions.
    #[must_use]
    pub fn free_places(&self) -> u32 {
        self.sessions.next_power_of_two().max(2)
    }
}

/// What the verifier said of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The stage.
    pub program: String,
    /// Instructions that it followed.
    pub instructions: u32,
}

/// The packet core in the kernel.
pub struct Core {
    ebpf: Ebpf,
    view: View,
    /// The kernel empties the table when nobody in userspace holds it any more.
    stages: Option<ProgramArray<MapData>>,
    pins: Option<Pins>,
    folder: Option<PathBuf>,
}

impl Core {
    /// Loads the programs. Maps that are pinned are used as they are, others are made, empty.
    ///
    /// # Errors
    /// The kernel refuses it: no privileges, no memory, or too old a kernel.
    pub fn load(sizes: &Sizes, pins: Option<&Pins>) -> Result<Self, Error> {
        let (index_mask, free_mask) = (sizes.buckets() - 1, sizes.free_places() - 1);
        let folder = pins.map(|pins| pins.maps(sizes)).transpose()?;
        let mut loader = EbpfLoader::new();
        loader
            .verifier_log_level(VerifierLogLevel::STATS)
            .override_global("INDEX_MASK", &index_mask, true)
            .override_global("FREE_MASK", &free_mask, true)
            .override_global("ANSWERS_A_TICK", &sizes.answers, true);
        for (name, records) in sizes.maps() {
            if let Some(records) = records {
                loader.map_max_entries(name, records);
            }
            if let Some(folder) = &folder {
                loader.map_pin_path(name, folder.join(name));
            }
        }
        let mut ebpf = loader.load(OBJECT)?;
        let stages = load_stages(&mut ebpf)?;
        // No program reads what its backends are called, but who finds the programs is to find it.
        bind(&ebpf, ENTER, "NAMES")?;
        let view = View::new(&mut |name| taken(&mut ebpf, name))?;
        Ok(Self { view, stages: Some(stages), pins: pins.cloned(), folder, ebpf })
    }

    /// The neighbours that the packet core asks for, to be taken out once.
    ///
    /// # Errors
    /// They were taken out before.
    pub fn take_events(&mut self) -> Result<Events, Error> {
        table(&mut |name| taken(&mut self.ebpf, name), "EVENTS").map(Events)
    }

    /// What the verifier said of each program.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn verified(&self) -> Result<Vec<Verified>, Error> {
        programs()
            .map(|(name, _)| {
                let program: &Xdp = program(&self.ebpf, name)?;
                let info = program.info().map_err(|source| refused(name, source))?;
                let instructions = info.verified_instruction_count().unwrap_or(0);
                Ok(Verified { program: name.to_owned(), instructions })
            })
            .collect()
    }

    /// The first stage, for programs that go on with it.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn entrance(&self) -> Result<BorrowedFd<'_>, Error> {
        let program: &Xdp = program(&self.ebpf, ENTER)?;
        Ok(program.fd().map_err(|source| refused(ENTER, source))?.as_fd())
    }

    /// Attaches the first stage to an interface. Where a pinned link of ours is there, its program
    /// is replaced in one step: no packet is without one.
    ///
    /// # Errors
    /// The kernel refuses it, or another program is there.
    pub fn attach(&mut self, interface: &str, index: u32, mode: Mode) -> Result<Link, Error> {
        let pin = self.pins.as_ref().map(|pins| pins.link(interface));
        let program = program_mut(&mut self.ebpf, ENTER)?;
        Link::attach(program, interface, index, mode, pin.as_deref())
    }

    /// Once every interface runs the program: keeps its stages, lets those of the last one go.
    ///
    /// # Errors
    /// The pins cannot be written.
    pub fn settle(&mut self) -> Result<(), Error> {
        let Some(pins) = &self.pins else { return Ok(()) };
        let [now, next] = pins.stages();
        let failed = |source| Error::Pins { directory: next.clone(), source };
        let _absent = std::fs::remove_file(&next);
        if let Some(stages) = self.stages.take() {
            stages.pin(&next).map_err(|error| failed(std::io::Error::other(error)))?;
        }
        std::fs::rename(&next, &now).map_err(failed)?;
        if let Some(folder) = &self.folder {
            pins.remove_other_maps(folder).map_err(failed)?;
        }
        Ok(())
    }

    /// Runs the stages on one frame, as if it had come by the interface of this index, and
    /// returns the kernel's action and the frame after it.
    ///
    /// # Errors
    /// The kernel refuses the frame: shorter than 14 octets or longer than a page.
    pub fn test_run(&mut self, frame: &[u8], interface: u32) -> Result<(u32, Vec<u8>), Error> {
        let program = program_mut(&mut self.ebpf, ENTER)?;
        let mut out = vec![0; frame.len() + 256];
        let mut context = [0u8; 24];
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress.
        context[4..8].copy_from_slice(&length.to_ne_bytes());
        context[12..16].copy_from_slice(&interface.to_ne_bytes());
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut out);
        options.ctx_in = Some(&context);
        let result = program.test_run(options).map_err(|source| refused("test run", source))?;
        out.truncate(usize::try_from(result.data_size_out).unwrap_or(usize::MAX));
        Ok((result.return_value, out))
    }
}

impl Deref for Core {
    type Target = View;
    fn deref(&self) -> &View {
        &self.view
    }
}

impl DerefMut for Core {
    fn deref_mut(&mut self) -> &mut View {
        &mut self.view
    }
}

/// Every program's name, and its place in the table that leads from one to the next.
fn programs() -> impl Iterator<Item = (&'static str, u32)> {
    let stages = Stage::ALL.iter().map(|stage| (stage.name(), *stage as u32));
    stages.chain([("capture", capture::PLACE)])
}

/// Loads every program, and enters the stages where the first one looks for them.
fn load_stages(ebpf: &mut Ebpf) -> Result<ProgramArray<MapData>, Error> {
    for (name, _) in programs() {
        program_mut(ebpf, name)?.load().map_err(|source| refused(name, source))?;
    }
    let mut table: ProgramArray<MapData> = table(&mut |name| taken(ebpf, name), "STAGES")?;
    for (name, place) in programs() {
        let fd = program(ebpf, name)?.fd().map_err(|source| refused(name, source))?;
        table.set(place, fd, 0).map_err(|source| unread("STAGES", source))?;
    }
    Ok(table)
}

/// Has a program hold a map that it does not use.
fn bind(ebpf: &Ebpf, name: &'static str, map: &'static str) -> Result<(), Error> {
    let fd = program(ebpf, name)?.fd().map_err(|source| refused(name, source))?;
    let Some(Map::Array(held)) = ebpf.map(map) else { return Err(Error::Missing(map)) };
    let bound = sys::bind(fd.as_fd(), held.fd().as_fd());
    bound.map_err(|source| refused(name, ProgramError::IOError(source)))
}

fn program<'a>(ebpf: &'a Ebpf, name: &'static str) -> Result<&'a Xdp, Error> {
    let program = ebpf.program(name).ok_or(Error::Missing(name))?;
    program.try_into().map_err(|source| refused(name, source))
}

fn program_mut<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Xdp, Error> {
    let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
    program.try_into().map_err(|source| refused(name, source))
}

fn refused(name: &str, source: ProgramError) -> Error {
    Error::Program { program: name.to_owned(), source }
}

fn taken(ebpf: &mut Ebpf, name: &'static str) -> Result<Map, Error> {
    ebpf.take_map(name).ok_or(Error::Missing(name))
}
