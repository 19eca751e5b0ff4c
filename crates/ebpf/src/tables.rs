//! The core's tables, bound to the maps.

use crate::atomic;
use crate::maps::{
    ANSWERS_A_TICK, BACKENDS, BUDGET, EVENTS, FREE, FREE_MASK, INDEX, INDEX_MASK, LEVELS, LINKS,
    MEMBERS, ORIGINS, OWNED, ROWS, SERVICES, SESSIONS, SETTINGS, SOURCES, TRAFFIC, WAYS,
};
use aya_ebpf::bindings::{bpf_fib_lookup as Lookup, xdp_md};
use aya_ebpf::helpers::generated::{bpf_fib_lookup, bpf_jiffies64, bpf_ktime_get_boot_ns};
use aya_ebpf::maps::Array;
use core::ops::{Deref, DerefMut};
use datapath::lb::layout::{
    BUCKET, Backend, Entry, Hop, INTERFACES, Interface, Owned, Row, Service, ServiceKey, Session,
    Settings, Source, TICK_SHIFT,
};
use datapath::lb::{self, Direction, DropReason, Packet, Tables};
use wire::{Address, Family};

/// How often a free session is reached for while other processors take them.
const TAKE_TRIES: u32 = 8;
/// Address families as the kernel numbers them.
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// The maps, seen by one packet.
pub(crate) struct MapTables {
    context: *mut xdp_md,
    ingress: u32,
}

impl MapTables {
    #[inline(always)]
    pub(crate) fn new(context: *mut xdp_md) -> Self {
        // SAFETY: the kernel hands a valid context to the program.
        let ingress = unsafe { (*context).ingress_ifindex };
        Self { context, ingress }
    }
}

/// Reads a constant that the loader sets, so that the compiler does not take the built value.
#[inline(always)]
fn constant(place: &u32) -> u32 {
    // SAFETY: a reference is readable.
    unsafe { core::ptr::read_volatile(place) }
}

/// One of the words that a map holds in pairs.
#[inline(always)]
fn pair(map: &Array<[u32; 2]>, at: u32) -> Option<u32> {
    let [even, odd] = *map.get(at >> 1)?;
    Some(if at & 1 == 0 { even } else { odd })
}

/// A question about a route, in words: the compiler zeroes and aligns them by eights.
#[repr(transparent)]
struct Request(core::mem::MaybeUninit<[u64; 8]>);

impl Request {
    /// Zeroes, word by word and in place: the compiler would call its own loop over octets, also
    /// to move words that it knows to be zeroes.
    #[inline(always)]
    fn zero(&mut self) -> &mut Lookup {
        for at in 0..8 {
            // SAFETY: there are eight words.
            unsafe { self.0.as_mut_ptr().cast::<u64>().add(at).write_volatile(0) };
        }
        // SAFETY: all zeroes is a value of the structure, which is as large and less aligned.
        unsafe { &mut *self.0.as_mut_ptr().cast() }
    }
}

const _: () = assert!(size_of::<Request>() == size_of::<Lookup>());

/// A bucket of the index in its map.
pub(crate) struct MapBucket(*mut [u64; BUCKET]);

impl lb::Bucket for MapBucket {
    #[inline(always)]
    fn get(&self, place: usize) -> Entry {
        // SAFETY: the map's value has `BUCKET` words; the mask tells the verifier.
        Entry(unsafe { core::ptr::read_volatile(self.0.cast::<u64>().add(place & (BUCKET - 1))) })
    }

    #[inline(always)]
    fn exchange(&self, place: usize, old: Entry, new: Entry) -> bool {
        // SAFETY: as above.
        unsafe { atomic::exchange(self.0.cast::<u64>().add(place & (BUCKET - 1)), old.0, new.0) }
    }
}

/// A session in its map.
pub(crate) struct MapRecord(*mut Session);

impl Deref for MapRecord {
    type Target = Session;
    #[inline(always)]
    fn deref(&self) -> &Session {
        // SAFETY: the map's value is a session; what other processors change meanwhile are whole
        // words of it, each of which is right before and after.
        unsafe { &*self.0 }
    }
}

impl DerefMut for MapRecord {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Session {
        // SAFETY: as above.
        unsafe { &mut *self.0 }
    }
}

impl lb::Record for MapRecord {
    #[inline(always)]
    fn set_state(&mut self, bits: u32) -> u32 {
        // SAFETY: the map's value is a session.
        unsafe { atomic::set(&raw mut (*self.0).state, bits) }
    }
}

/// The way to a backend in its map.
pub(crate) struct MapWay(*mut Hop);

impl Deref for MapWay {
    type Target = Hop;
    #[inline(always)]
    fn deref(&self) -> &Hop {
        // SAFETY: the map's value is a way; a processor that writes it writes what is true for
        // all, and its generation last.
        unsafe { &*self.0 }
    }
}

impl DerefMut for MapWay {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Hop {
        // SAFETY: as above.
        unsafe { &mut *self.0 }
    }
}

impl Tables for MapTables {
    type Bucket<'a> = MapBucket;
    type Record<'a> = MapRecord;
    type Way<'a> = MapWay;

    #[inline(always)]
    fn settings(&self) -> Option<&Settings> {
        SETTINGS.get(0)
    }

    #[inline(always)]
    fn tick(&self) -> u32 {
        // SAFETY: a helper without arguments.
        (unsafe { bpf_jiffies64() } >> TICK_SHIFT) as u32
    }

    #[inline(always)]
    fn boot_ns(&self) -> u64 {
        // SAFETY: a helper without arguments.
        unsafe { bpf_ktime_get_boot_ns() }
    }

    #[inline(always)]
    fn interface(&self) -> Option<&Interface> {
        let interface = LINKS.get(self.ingress & (INTERFACES - 1))?;
        (interface.index == self.ingress).then_some(interface)
    }

    #[inline(always)]
    fn owned(&self, address: &Address) -> Option<&Owned> {
        // SAFETY: the value is replaced whole; a reader sees the old one or the new one.
        unsafe { OWNED.get(address) }
    }

    #[inline(always)]
    fn service(&self, key: &ServiceKey) -> Option<&Service> {
        // SAFETY: as above.
        unsafe { SERVICES.get(key) }
    }

    #[inline(always)]
    fn origin(&self, key: &ServiceKey) -> Option<&ServiceKey> {
        // SAFETY: as above.
        unsafe { ORIGINS.get(key) }
    }

    #[inline(always)]
    fn row(&self, at: u32) -> Option<Row> {
        pair(&ROWS, at).map(Row)
    }

    #[inline(always)]
    fn member(&self, at: u32) -> Option<u32> {
        pair(&MEMBERS, at)
    }

    #[inline(always)]
    fn backend(&self, id: u32) -> Option<&Backend> {
        BACKENDS.get(id)
    }

    #[inline(always)]
    fn way(&self, id: u32) -> Option<MapWay> {
        WAYS.get_ptr_mut(id).map(MapWay)
    }

    #[inline(always)]
    fn source(&self, at: u32) -> Option<&Source> {
        SOURCES.get(at)
    }

    #[inline(always)]
    fn bucket(&self, number: u32) -> Option<MapBucket> {
        INDEX.get_ptr_mut(number & constant(&INDEX_MASK)).map(MapBucket)
    }

    #[inline(always)]
    fn record(&self, session: u32) -> Option<MapRecord> {
        SESSIONS.get_ptr_mut(session).map(MapRecord)
    }

    #[inline(always)]
    fn take(&self) -> Option<u32> {
        let levels = LEVELS.get_ptr_mut(0)?;
        for _ in 0..TAKE_TRIES {
            // SAFETY: the map's value is a `Levels`; both words are written whole.
            let (taken, freed) = unsafe {
                (
                    core::ptr::read_volatile(&raw const (*levels).taken),
                    core::ptr::read_volatile(&raw const (*levels).freed),
                )
            };
            if taken == freed {
                return None;
            }
            let session = pair(&FREE, taken as u32 & constant(&FREE_MASK))?;
            // SAFETY: the word is the map's.
            if unsafe { atomic::exchange(&raw mut (*levels).taken, taken, taken + 1) } {
                return Some(session);
            }
        }
        None
    }

    #[inline(always)]
    fn open_half(&self) -> bool {
        let Some(levels) = LEVELS.get_ptr_mut(0) else { return false };
        let Some(settings) = SETTINGS.get(0) else { return false };
        // SAFETY: the word is the map's.
        let before = unsafe { atomic::add(&raw mut (*levels).half_open, 1) };
        let admitted = before < u64::from(settings.half_open_limit);
        if !admitted {
            self.close_half();
        }
        admitted
    }

    #[inline(always)]
    fn close_half(&self) {
        if let Some(levels) = LEVELS.get_ptr_mut(0) {
            // SAFETY: the word is the map's.
            unsafe { atomic::add(&raw mut (*levels).half_open, u64::MAX) };
        }
    }

    #[inline(always)]
    fn route(
        &self,
        packet: &Packet,
        source: &Address,
        destination: &Address,
        hop: &mut Hop,
    ) -> Result<(), DropReason> {
        let mut request = Request(core::mem::MaybeUninit::uninit());
        let lookup = request.zero();
        lookup.l4_protocol = packet.key.protocol;
        lookup.ifindex = self.ingress;
        lookup.__bindgen_anon_1.tot_len = 0;
        match packet.family {
            Family::V4 => {
                lookup.family = AF_INET;
                lookup.__bindgen_anon_2.tos = packet.tos;
                lookup.__bindgen_anon_3.ipv4_src = u32::from_ne_bytes(source.low4());
                lookup.__bindgen_anon_4.ipv4_dst = u32::from_ne_bytes(destination.low4());
            }
            Family::V6 => {
                lookup.family = AF_INET6;
                lookup.__bindgen_anon_3.ipv6_src = words(source);
                lookup.__bindgen_anon_4.ipv6_dst = words(destination);
            }
        }
        let size = size_of::<Lookup>() as i32;
        // SAFETY: the context is valid, and the structure as large as is said.
        let found = unsafe { bpf_fib_lookup(self.context.cast(), lookup, size, 0) };
        match found {
            0 => {
                enter(lookup, hop);
                Ok(())
            }
            1 => Err(DropReason::RouteBlackhole),
            2 => Err(DropReason::RouteUnreachable),
            3 => Err(DropReason::RouteProhibited),
            4 => Err(DropReason::RouteNotForwarded),
            5 => Err(DropReason::ForwardingDisabled),
            6 => Err(DropReason::RouteUnsupported),
            7 => Err(DropReason::NoNeighbour),
            8 => Err(DropReason::TooBig),
            _ => Err(DropReason::RouteUnsupported),
        }
    }

    #[inline(always)]
    fn admit(&self) -> bool {
        let Some(budget) = BUDGET.get_ptr_mut(0) else { return false };
        // SAFETY: the record is this processor's.
        let budget = unsafe { &mut *budget };
        let now = self.tick();
        if budget.tick != now {
            (budget.tick, budget.left) = (now, constant(&ANSWERS_A_TICK));
        }
        if budget.left == 0 {
            return false;
        }
        budget.left -= 1;
        true
    }

    #[inline(always)]
    fn want_neighbour(&self, destination: &Address) {
        let _full = EVENTS.output::<Address>(destination, 0);
    }

    #[inline(always)]
    fn count(&self, backend: u32, direction: Direction, octets: u16) {
        let Some(traffic) = TRAFFIC.get_ptr_mut(backend) else { return };
        // SAFETY: the record is this processor's.
        let traffic = unsafe { &mut *traffic };
        traffic.count(direction, octets);
    }

    #[inline(always)]
    fn count_session(&self, backend: u32) {
        if let Some(traffic) = TRAFFIC.get_ptr_mut(backend) {
            // SAFETY: the record is this processor's.
            unsafe { (*traffic).sessions += 1 };
        }
    }
}

/// Enters what the kernel found.
#[inline(always)]
fn enter(lookup: &Lookup, hop: &mut Hop) {
    let [a, b, c, d, e, f] = stacked(&lookup.dmac);
    let [g, h, i, j, k, l] = stacked(&lookup.smac);
    hop.addresses = [a, b, c, d, e, f, g, h, i, j, k, l];
    hop.interface = lookup.ifindex.to_ne_bytes();
    // SAFETY: both variants of the union are 16 bits.
    hop.mtu = unsafe { lookup.__bindgen_anon_1.mtu_result }.to_ne_bytes();
    hop.vlan = [0; 2];
}

/// Six octets of the stack, where the verifier takes aligned reads only.
#[inline(always)]
fn stacked(mac: &[u8; 6]) -> [u8; 6] {
    let words: *const u16 = mac.as_ptr().cast();
    // SAFETY: the six octets are inside the structure, at an even offset.
    let read = |at| unsafe { core::ptr::read_volatile(words.add(at)) }.to_ne_bytes();
    let ([a, b], [c, d], [e, f]) = (read(0), read(1), read(2));
    [a, b, c, d, e, f]
}

#[inline(always)]
fn words(address: &Address) -> [u32; 4] {
    let [a, b] = address.words();
    [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]
}
