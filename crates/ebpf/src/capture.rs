//! Copies packets for people: a program behind the stages, so that these carry but a branch.

use crate::frame::XdpFrame;
use crate::maps::{CAPTURE, OUTCOME, SETTINGS, STAGES, VERDICTS};
use aya_ebpf::bindings::{xdp_action, xdp_md};
use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_ktime_get_boot_ns, bpf_xdp_load_bytes};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use core::arch::asm;
use datapath::Frame as _;
use datapath::lb::Verdict;
use datapath::lb::capture::{self, Captured, Outcome, SNAP};
use datapath::lb::layout::TICK_SHIFT;

/// Whether packets are captured. The settings are in the processor's cache already.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    // SAFETY: the word is the map's, and userspace writes it whole.
    SETTINGS.get(0).is_some_and(|settings| unsafe {
        core::ptr::read_volatile(&raw const settings.capture_until) != 0
    })
}

/// Goes on with the program that copies; comes back only if there is none.
#[inline(always)]
pub(crate) fn hand_over(context: &XdpContext, verdict: Verdict, action: u32) {
    let Some(outcome) = OUTCOME.get_ptr_mut(0) else { return };
    let (code, reason) = capture::code(verdict);
    // SAFETY: the record is this processor's.
    unsafe {
        (*outcome).action = action;
        (*outcome).egress = if let Verdict::Redirect(interface) = verdict { interface } else { 0 };
        (*outcome).verdict = code;
        (*outcome).reason = reason;
        STAGES.tail_call(context, capture::PLACE);
    }
}

/// Copies the packet that a stage has decided about, and ends as it said.
#[xdp]
#[inline(always)]
pub(crate) fn capture(context: XdpContext) -> u32 {
    let Some(outcome) = OUTCOME.get_ptr_mut(0) else { return xdp_action::XDP_ABORTED };
    // SAFETY: the record is this processor's, and no other program runs on it meanwhile.
    let outcome = unsafe { &mut *outcome };
    if is_wanted(outcome) && copy(context.ctx, outcome).is_none() {
        outcome.lost += 1;
    }
    outcome.action
}

/// Drops are wanted, and every so many of the other packets.
#[inline(always)]
fn is_wanted(outcome: &Outcome) -> bool {
    let Some(settings) = SETTINGS.get(0) else { return false };
    // SAFETY: a helper without arguments.
    let tick = (unsafe { bpf_jiffies64() } >> TICK_SHIFT) as u32;
    if !capture::is_before(tick, settings.capture_until) {
        return false;
    }
    if outcome.verdict > 2 {
        return true;
    }
    let Some(count) = VERDICTS.get_ptr(outcome.verdict) else { return false };
    let every = u64::from(settings.capture_every);
    // SAFETY: the record is this processor's.
    every != 0 && unsafe { *count } % every == 0
}

/// `None` if there is no room.
#[inline(always)]
fn copy(context: *mut xdp_md, outcome: &Outcome) -> Option<()> {
    let length = XdpFrame::new(context).len();
    let mut entry = CAPTURE.reserve::<Captured>(0)?;
    let record = entry.as_mut_ptr();
    // SAFETY: the kernel hands a valid context to the program; the reserved record is written field
    // by field, and the frame's copy is no longer than its field.
    unsafe {
        (*record).boot_ns = bpf_ktime_get_boot_ns();
        (*record).ingress = (*context).ingress_ifindex;
        (*record).egress = outcome.egress;
        (*record).length = length as u32;
        (*record).verdict = outcome.verdict as u8;
        (*record).reason = outcome.reason as u8;
        let octets = masked(if length > SNAP { SNAP } else { length });
        let to = (&raw mut (*record).frame).cast();
        let copied = octets > 0 && bpf_xdp_load_bytes(context, 0, to, octets) == 0;
        (*record).octets = if copied { octets as u16 } else { 0 };
    }
    entry.submit(0);
    Some(())
}

/// The number of octets, in an instruction that the compiler cannot take away.
#[inline(always)]
fn masked(mut octets: usize) -> u32 {
    // SAFETY: changes one register.
    unsafe { asm!("{0} &= 255", inout(reg) octets, options(pure, nomem, nostack)) };
    octets as u32
}
