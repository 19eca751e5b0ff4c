//! The packet's memory as a frame, every access in bounds by the verifier's own reckoning.

use aya_ebpf::bindings::xdp_md;
use aya_ebpf::helpers::generated::{bpf_xdp_adjust_head, bpf_xdp_adjust_tail};
use core::arch::asm;
use datapath::Frame;

/// Offsets into a frame are below this; headers end long before.
const REACH: usize = 2048;

/// One packet of the driver's.
pub(crate) struct XdpFrame {
    context: *mut xdp_md,
    start: usize,
    end: usize,
}

impl XdpFrame {
    /// The packet of this run.
    #[inline(always)]
    pub(crate) fn new(context: *mut xdp_md) -> Self {
        let mut frame = Self { context, start: 0, end: 0 };
        frame.reload();
        frame
    }

    /// Takes the packet's bounds anew: helpers that move them invalidate the old ones.
    #[inline(always)]
    fn reload(&mut self) {
        // SAFETY: the kernel hands a valid context to the program, and reloads it for helpers.
        let (start, end) = unsafe {
            (
                core::ptr::read_volatile(&raw const (*self.context).data),
                core::ptr::read_volatile(&raw const (*self.context).data_end),
            )
        };
        self.start = start as usize;
        self.end = end as usize;
    }

    /// Where `count` octets at `offset` are, if the packet has them.
    #[inline(always)]
    fn at(&self, offset: usize, count: usize) -> Option<usize> {
        if offset >= REACH {
            return None;
        }
        let at = self.start + masked(offset);
        if at + count > self.end { None } else { Some(at) }
    }
}

/// The offset, in an instruction that the compiler cannot take away: it sees that the check before
/// made it needless, the verifier does not.
#[inline(always)]
fn masked(mut offset: usize) -> usize {
    // SAFETY: changes one register.
    unsafe { asm!("{0} &= 2047", inout(reg) offset, options(pure, nomem, nostack)) };
    offset
}

impl Frame for XdpFrame {
    #[inline(always)]
    fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline(always)]
    fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let at = self.at(offset, N)?;
        // SAFETY: `at` says that the packet has the octets.
        Some(unsafe { core::ptr::read_unaligned(at as *const [u8; N]) })
    }

    #[inline(always)]
    fn write<const N: usize>(&mut self, offset: usize, octets: [u8; N]) -> Option<()> {
        let at = self.at(offset, N)?;
        // SAFETY: `at` says that the packet has the octets.
        unsafe { core::ptr::write_unaligned(at as *mut [u8; N], octets) };
        Some(())
    }

    #[inline(always)]
    fn unknown(&self, mut offset: usize) -> usize {
        let length = self.len();
        // SAFETY: changes one register, to and fro: of the length the verifier knows nothing.
        unsafe {
            asm!("{0} ^= {1}", "{0} ^= {1}", inout(reg) offset, in(reg) length, options(pure, nomem, nostack));
        }
        offset
    }

    #[inline(always)]
    fn push(&mut self, count: usize) -> Option<()> {
        let count = i32::try_from(count).ok()?;
        // SAFETY: the context is valid; the bounds are taken anew.
        let moved = unsafe { bpf_xdp_adjust_head(self.context, -count) };
        self.reload();
        (moved == 0).then_some(())
    }

    #[inline(always)]
    fn pull(&mut self, count: usize) -> Option<()> {
        let count = i32::try_from(count).ok()?;
        // SAFETY: the context is valid; the bounds are taken anew.
        let moved = unsafe { bpf_xdp_adjust_head(self.context, count) };
        self.reload();
        (moved == 0).then_some(())
    }

    #[inline(always)]
    fn truncate(&mut self, length: usize) -> Option<()> {
        let cut = i32::try_from(self.len().checked_sub(length)?).ok()?;
        // SAFETY: the context is valid; the bounds are taken anew.
        let moved = unsafe { bpf_xdp_adjust_tail(self.context, -cut) };
        self.reload();
        (moved == 0).then_some(())
    }
}
