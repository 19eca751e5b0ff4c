//! One XDP program a stage.

use crate::capture;
use crate::frame::XdpFrame;
use crate::maps::{DROPS, SCRATCH, STAGES, VERDICTS};
use crate::tables::MapTables;
use aya_ebpf::bindings::xdp_action;
use aya_ebpf::helpers::generated::bpf_redirect;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use core::arch::asm;
use datapath::lb::{self, DropReason, Next, Scratch, Stage, Verdict};

/// Every frame: what an interface runs.
#[xdp]
#[inline(always)]
pub(crate) fn enter(context: XdpContext) -> u32 {
    stage(&context, Stage::Enter)
}

/// Packets without a session.
#[xdp]
#[inline(always)]
pub(crate) fn admit(context: XdpContext) -> u32 {
    stage(&context, Stage::Admit)
}

/// New sessions.
#[xdp]
#[inline(always)]
pub(crate) fn claim(context: XdpContext) -> u32 {
    stage(&context, Stage::Claim)
}

/// ARP, neighbour discovery, and echoes of virtual addresses.
#[xdp]
#[inline(always)]
pub(crate) fn answer(context: XdpContext) -> u32 {
    stage(&context, Stage::Answer)
}

/// ICMP errors about packets of sessions.
#[xdp]
#[inline(always)]
pub(crate) fn error(context: XdpContext) -> u32 {
    stage(&context, Stage::Error)
}

/// First segments whose segments are to be smaller.
#[xdp]
#[inline(always)]
pub(crate) fn clamp(context: XdpContext) -> u32 {
    stage(&context, Stage::Clamp)
}

/// Packets that go no further.
#[xdp]
#[inline(always)]
pub(crate) fn refuse(context: XdpContext) -> u32 {
    stage(&context, Stage::Refuse)
}

#[inline(always)]
fn stage(context: &XdpContext, stage: Stage) -> u32 {
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else { return xdp_action::XDP_ABORTED };
    // SAFETY: the record is this processor's, and no other program runs on it meanwhile.
    let scratch: &mut Scratch = unsafe { &mut *scratch };
    let mut frame = XdpFrame::new(context.ctx);
    let tables = MapTables::new(context.ctx);
    match lb::run(stage, &mut frame, &tables, scratch) {
        Next::Done(verdict) => finish(context, verdict),
        Next::Stage(next) => {
            go_on(context, next);
            finish(context, Verdict::Drop(DropReason::Internal))
        }
    }
}

/// Calls the next stage's program; does not return but after as many stages as the kernel allows.
#[inline(always)]
fn go_on(context: &XdpContext, next: Stage) {
    match next {
        Stage::Enter => jump::<{ Stage::Enter as u32 }>(context),
        Stage::Admit => jump::<{ Stage::Admit as u32 }>(context),
        Stage::Claim => jump::<{ Stage::Claim as u32 }>(context),
        Stage::Answer => jump::<{ Stage::Answer as u32 }>(context),
        Stage::Error => jump::<{ Stage::Error as u32 }>(context),
        Stage::Clamp => jump::<{ Stage::Clamp as u32 }>(context),
        Stage::Refuse => jump::<{ Stage::Refuse as u32 }>(context),
    }
}

/// A tail call to a place that the kernel sees in the instruction, and so makes a plain jump; one
/// to a computed place is an indirect jump, which the mitigations of processors make dear.
#[inline(always)]
fn jump<const PLACE: u32>(context: &XdpContext) {
    // SAFETY: the helper takes the context and the table of programs, and keeps no memory of ours;
    // the registers that it may change are named.
    unsafe {
        asm!(
            "r3 = {place}",
            "call 12",
            place = const PLACE,
            inlateout("r1") context.ctx => _,
            inlateout("r2") &raw const STAGES => _,
            lateout("r0") _,
            lateout("r3") _,
            lateout("r4") _,
            lateout("r5") _,
        );
    }
}

#[inline(always)]
fn finish(context: &XdpContext, verdict: Verdict) -> u32 {
    let action = counted(verdict);
    if capture::is_on() {
        capture::hand_over(context, verdict, action);
    }
    action
}

/// Counts the packet, and tells the kernel's action.
#[inline(always)]
fn counted(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Pass => count(0, xdp_action::XDP_PASS),
        Verdict::Transmit => count(1, xdp_action::XDP_TX),
        Verdict::Redirect(interface) => {
            count(2, 0);
            // SAFETY: a helper without memory.
            unsafe { bpf_redirect(interface, 0) as u32 }
        }
        Verdict::Answer(reason) => {
            count_drop(reason);
            count(1, xdp_action::XDP_TX)
        }
        Verdict::Drop(reason) => {
            count_drop(reason);
            count(3, xdp_action::XDP_DROP)
        }
    }
}

#[inline(always)]
fn count_drop(reason: DropReason) {
    if let Some(drops) = DROPS.get_ptr_mut(reason.index() as u32) {
        // SAFETY: the record is this processor's.
        unsafe { *drops += 1 };
    }
}

#[inline(always)]
fn count(place: u32, action: u32) -> u32 {
    if let Some(verdicts) = VERDICTS.get_ptr_mut(place) {
        // SAFETY: the record is this processor's.
        unsafe { *verdicts += 1 };
    }
    action
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
