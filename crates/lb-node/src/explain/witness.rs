//! Runs the packet core, and writes down what it asked of its tables and what it was told.
//!
//! So the explanation is not a second copy of the core's decisions: it tells of those that were
//! made.

use datapath::SliceFrame;
use datapath::lb::host::{HostBucket, HostRecord, HostTables};
use datapath::lb::layout::{
    Backend, Hop, Interface, Owned, Row, Service, ServiceKey, Session, Settings, Source,
};
use datapath::lb::{
    Direction, DropReason, MAX_STAGES, Next, Packet, Scratch, Stage, Tables, Verdict, run,
};
use std::cell::{RefCell, RefMut};
use wire::Address;

/// Room before the frame for what is pushed in front of it.
const HEADROOM: usize = 256;

/// One question to the tables, and the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The service of this key.
    Service(ServiceKey, Option<Service>),
    /// The service that a backend stands behind.
    Origin(Option<ServiceKey>),
    /// A row of the arena.
    Row(u32, Option<Row>),
    /// The backend of this id.
    Backend(u32),
    /// The way to a backend that was known.
    Way(Hop),
    /// A look into the routing table.
    Route(Address, Result<Hop, DropReason>),
    /// An address and ports to translate to.
    Source(Source),
    /// A session's record as it was then.
    Session(u32, Session),
    /// A free record was taken, if there was one.
    Taken(Option<u32>),
    /// One more half-open session was admitted, or not.
    HalfOpen(bool),
    /// An answer of our own was admitted, or not.
    Answer(bool),
}

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Each stage, and what it asked.
    pub stages: Vec<(Stage, Vec<Note>)>,
    /// What the stages left to each other, once each was done.
    pub scratches: Vec<Scratch>,
    /// The end.
    pub verdict: Verdict,
    /// The frame as it leaves.
    pub frame: Vec<u8>,
}

/// Looks into the routing table.
pub type Routes<'a> = dyn Fn(&Address) -> Result<Hop, DropReason> + 'a;

/// Decides about a frame as the kernel's build would.
pub fn trace(tables: &HostTables, routes: &Routes<'_>, frame: &[u8]) -> Trace {
    let witness = Witness { tables, routes, notes: RefCell::default() };
    let mut buffer = vec![0; HEADROOM];
    buffer.extend_from_slice(frame);
    let end = buffer.len();
    let mut stages = Vec::new();
    let mut scratches = Vec::new();
    let mut scratch = Scratch::EMPTY;
    let mut verdict = Verdict::Drop(DropReason::Internal);
    let Some(mut frame) = SliceFrame::new(&mut buffer, HEADROOM, end) else {
        return Trace { stages, scratches, verdict, frame: Vec::new() };
    };
    let mut stage = Stage::Enter;
    for _ in 0..=MAX_STAGES {
        let next = run(stage, &mut frame, &witness, &mut scratch);
        stages.push((stage, witness.notes.take()));
        scratches.push(scratch);
        match next {
            Next::Stage(next) => stage = next,
            Next::Done(done) => {
                verdict = done;
                break;
            }
        }
    }
    Trace { stages, scratches, verdict, frame: frame.octets().to_vec() }
}

impl Trace {
    /// What a stage asked in its first run.
    pub fn notes(&self, of: Stage) -> &[Note] {
        let found = self.stages.iter().find(|(stage, _)| *stage == of);
        found.map(|(_, notes)| notes.as_slice()).unwrap_or_default()
    }

    /// Everything that was asked, in order.
    pub fn all_notes(&self) -> impl DoubleEndedIterator<Item = &Note> {
        self.stages.iter().flat_map(|(_, notes)| notes)
    }

    /// What was left when a stage had run for the last time.
    pub fn scratch_after(&self, of: Stage) -> Option<&Scratch> {
        let place = self.stages.iter().rposition(|(stage, _)| *stage == of)?;
        self.scratches.get(place)
    }
}

struct Witness<'a> {
    tables: &'a HostTables,
    routes: &'a Routes<'a>,
    notes: RefCell<Vec<Note>>,
}

impl Witness<'_> {
    fn note(&self, note: Note) {
        self.notes.borrow_mut().push(note);
    }
}

impl Tables for Witness<'_> {
    type Bucket<'a>
        = HostBucket<'a>
    where
        Self: 'a;
    type Record<'a>
        = HostRecord<'a>
    where
        Self: 'a;
    type Way<'a>
        = RefMut<'a, Hop>
    where
        Self: 'a;

    fn settings(&self) -> Option<&Settings> {
        self.tables.settings()
    }

    fn tick(&self) -> u32 {
        self.tables.tick()
    }

    fn boot_ns(&self) -> u64 {
        self.tables.boot_ns()
    }

    fn interface(&self) -> Option<&Interface> {
        self.tables.interface()
    }

    fn owned(&self, address: &Address) -> Option<&Owned> {
        self.tables.owned(address)
    }

    fn service(&self, key: &ServiceKey) -> Option<&Service> {
        let found = self.tables.service(key);
        self.note(Note::Service(*key, found.copied()));
        found
    }

    fn origin(&self, key: &ServiceKey) -> Option<&ServiceKey> {
        let found = self.tables.origin(key);
        self.note(Note::Origin(found.copied()));
        found
    }

    fn row(&self, at: u32) -> Option<Row> {
        let found = self.tables.row(at);
        self.note(Note::Row(at, found));
        found
    }

    fn member(&self, at: u32) -> Option<u32> {
        self.tables.member(at)
    }

    fn backend(&self, id: u32) -> Option<&Backend> {
        self.note(Note::Backend(id));
        self.tables.backend(id)
    }

    fn way(&self, id: u32) -> Option<RefMut<'_, Hop>> {
        let way = self.tables.way(id);
        if let Some(way) = &way {
            self.note(Note::Way(**way));
        }
        way
    }

    fn source(&self, at: u32) -> Option<&Source> {
        let source = self.tables.source(at);
        if let Some(source) = source {
            self.note(Note::Source(*source));
        }
        source
    }

    fn bucket(&self, number: u32) -> Option<HostBucket<'_>> {
        self.tables.bucket(number)
    }

    fn record(&self, session: u32) -> Option<HostRecord<'_>> {
        let record = self.tables.record(session);
        if let Some(record) = &record {
            self.note(Note::Session(session, **record));
        }
        record
    }

    fn take(&self) -> Option<u32> {
        let taken = self.tables.take();
        self.note(Note::Taken(taken));
        taken
    }

    fn open_half(&self) -> bool {
        let admitted = self.tables.open_half();
        self.note(Note::HalfOpen(admitted));
        admitted
    }

    fn close_half(&self) {
        self.tables.close_half();
    }

    fn route(
        &self,
        _: &Packet,
        _: &Address,
        destination: &Address,
        hop: &mut Hop,
    ) -> Result<(), DropReason> {
        let found = (self.routes)(destination);
        self.note(Note::Route(*destination, found));
        *hop = Hop { generation: hop.generation, ..found? };
        Ok(())
    }

    fn admit(&self) -> bool {
        let admitted = self.tables.admit();
        self.note(Note::Answer(admitted));
        admitted
    }

    fn want_neighbour(&self, destination: &Address) {
        self.tables.want_neighbour(destination);
    }

    fn count(&self, backend: u32, direction: Direction, octets: u16) {
        self.tables.count(backend, direction, octets);
    }

    fn count_session(&self, backend: u32) {
        self.tables.count_session(backend);
    }
}
