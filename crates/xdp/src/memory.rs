//! An array map in this process's memory: reads and writes without a system call.
//!
//! The kernel's side changes it at any time. So every access copies whole records, word by word,
//! or works on one word with an atomic operation; references are never handed out.

use crate::{Error, Plain};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A shared array of `T`.
#[derive(Debug)]
pub struct Memory<T: Plain> {
    base: *mut u8,
    octets: usize,
    length: u32,
    record: PhantomData<T>,
}

// SAFETY: the memory is shared with the kernel already; every access is by atomic words.
unsafe impl<T: Plain> Send for Memory<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Memory<T> {}

impl<T: Plain> Memory<T> {
    /// From one record to the next: the kernel rounds up to eight octets.
    const STRIDE: usize = size_of::<T>().next_multiple_of(8);

    /// Maps an array of `length` records.
    pub(crate) fn map(name: &'static str, fd: BorrowedFd<'_>, length: u32) -> Result<Self, Error> {
        let refused = |source| Error::Memory { map: name, source };
        let length_usize = usize::try_from(length)
            .map_err(|_| refused(io::Error::other("more records than memory has places")))?;
        let octets = (length_usize * Self::STRIDE).next_multiple_of(rustix::param::page_size());
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), octets, access, flags, fd, 0) }
            .map_err(|errno| refused(errno.into()))?;
        Ok(Self { base: base.cast(), octets, length, record: PhantomData })
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A copy of a record, which the kernel may be changing: each aligned word is whole, the
    /// record need not be. `None` past the end.
    #[must_use]
    pub fn load(&self, at: u32) -> Option<T> {
        let from = self.place(at)?;
        // SAFETY: `place` is inside the mapping; volatile, as the kernel writes there.
        Some(unsafe { from.read_volatile() })
    }

    /// Writes a record; nothing happens past the end.
    pub fn store(&self, at: u32, record: T) {
        if let Some(to) = self.place(at) {
            // SAFETY: `place` is inside the mapping.
            unsafe { to.write_volatile(record) };
        }
    }

    /// The word of 64 bits at this octet of a record.
    ///
    /// `None` past the end of the record or where no such word can be.
    #[must_use]
    pub fn word(&self, at: u32, octet: usize) -> Option<&AtomicU64> {
        let inside = octet + 8 <= Self::STRIDE && octet.is_multiple_of(8);
        let place = self.place(at).filter(|_| inside)?;
        // SAFETY: inside the mapping and aligned; everybody changes the word atomically.
        Some(unsafe { AtomicU64::from_ptr(place.cast::<u8>().add(octet).cast()) })
    }

    /// The word of 32 bits at this octet of a record.
    #[must_use]
    pub fn half_word(&self, at: u32, octet: usize) -> Option<&AtomicU32> {
        let inside = octet + 4 <= Self::STRIDE && octet.is_multiple_of(4);
        let place = self.place(at).filter(|_| inside)?;
        // SAFETY: inside the mapping and aligned; everybody changes the word atomically.
        Some(unsafe { AtomicU32::from_ptr(place.cast::<u8>().add(octet).cast()) })
    }

    fn place(&self, at: u32) -> Option<*mut T> {
        let index = usize::try_from(at).ok().filter(|_| at < self.length)?;
        // SAFETY: below `length`, so inside the mapping.
        Some(unsafe { self.base.add(index * Self::STRIDE).cast() })
    }
}

/// Words of 32 bits, kept in pairs.
#[derive(Debug)]
pub struct Pairs(Memory<u64>);

impl Pairs {
    /// The words of these pairs.
    pub(crate) fn new(pairs: Memory<u64>) -> Self {
        Self(pairs)
    }

    /// How many words there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.len().saturating_mul(2)
    }

    /// Whether there is no word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A word; `None` past the end.
    #[must_use]
    pub fn load(&self, at: u32) -> Option<u32> {
        Some(self.word(at)?.load(Ordering::Relaxed))
    }

    /// Writes a word; nothing happens past the end.
    pub fn store(&self, at: u32, word: u32) {
        if let Some(place) = self.word(at) {
            place.store(word, Ordering::Release);
        }
    }

    fn word(&self, at: u32) -> Option<&AtomicU32> {
        self.0.half_word(at / 2, if at.is_multiple_of(2) { 0 } else { 4 })
    }
}

impl<T: Plain> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it is left. It cannot fail.
        let _unmapped = unsafe { munmap(self.base.cast(), self.octets) };
    }
}
