//! Atomic operations as instructions: the compiler has no compare-exchange for this machine.

use core::arch::asm;

/// Replaces `*word` by `new` if it is `old`, and tells whether it was.
///
/// # Safety
/// `word` points to a map's value.
#[inline(always)]
pub(crate) unsafe fn exchange(word: *mut u64, old: u64, new: u64) -> bool {
    let found: u64;
    // SAFETY: by this function's contract the address may be written.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({word} + 0, r0, {new})",
            word = in(reg) word,
            new = in(reg) new,
            inlateout("r0") old => found,
            options(nostack),
        );
    }
    found == old
}

/// Adds to `*word`, and returns what it was.
///
/// # Safety
/// `word` points to a map's value.
#[inline(always)]
pub(crate) unsafe fn add(word: *mut u64, count: u64) -> u64 {
    let mut value = count;
    // SAFETY: by this function's contract the address may be written.
    unsafe {
        asm!(
            "{value} = atomic_fetch_add((u64 *)({word} + 0), {value})",
            word = in(reg) word,
            value = inout(reg) value,
            options(nostack),
        );
    }
    value
}

/// Sets bits of `*word`, and returns what it was.
///
/// # Safety
/// `word` points to a map's value.
#[inline(always)]
pub(crate) unsafe fn set(word: *mut u32, bits: u32) -> u32 {
    let mut value = bits;
    // SAFETY: by this function's contract the address may be written.
    unsafe {
        asm!(
            "{value} = atomic_fetch_or((u32 *)({word} + 0), {value})",
            word = in(reg) word,
            value = inout(wreg) value,
            options(nostack),
        );
    }
    value
}
