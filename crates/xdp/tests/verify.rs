//! Bounds of the object that is checked in: what the verifier follows, the stack, and loops.
//!
//! The object itself is read without privileges; the verifier is asked where bpf(2) is allowed.
//! Over a limit: split the stage, do not raise the limit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

use datapath::lb::Stage;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};
use std::collections::BTreeMap;
use xdp::{Core, Error, Sizes};

/// Instructions that the verifier may follow in one stage; it gives up at a million.
const MAX_VERIFIED: u32 = 100_000;
/// Octets of the stack that a stage may use; the kernel gives 512 with all that it calls.
const MAX_STACK: i32 = 384;
/// The section of the programs.
const PROGRAMS: &str = "xdp";

/// Calls that a stage may make of a function in `.text`, which is a loop over octets.
struct Allowed {
    stage: &'static str,
    callee: &'static str,
    /// How many at most.
    calls: usize,
    reason: &'static str,
}

const ALLOWED: &[Allowed] = &[];

#[test]
fn every_stage_is_verified_within_its_bounds() {
    let verified = match Core::load(&Sizes::default(), None) {
        Ok(core) => core.verified().unwrap(),
        Err(error) => {
            let Some(refusal) = refusal(&error) else { panic!("{error}") };
            let required = std::env::var_os("LABS").is_some_and(|labs| labs == "required");
            assert!(!required, "LABS=required, but: {error}: {refusal}");
            println!("skipped: the verifier is not asked: {error}: {refusal}");
            return;
        }
    };
    println!("{:10} {:>8} of {MAX_VERIFIED} instructions", "stage", "verified");
    for stage in &verified {
        println!("{:10} {:8}", stage.program, stage.instructions);
    }
    assert_eq!(verified.len(), Stage::ALL.len() + 1, "the stages, and what captures packets");
    for stage in verified {
        // A kernel that does not tell says zero.
        assert!((1..=MAX_VERIFIED).contains(&stage.instructions), "{stage:?}");
    }
}

#[test]
fn every_stage_keeps_to_its_stack() {
    let programs = Program::all(PROGRAMS);
    let functions = Program::all(".text");
    println!("{:10} {:>8} of {MAX_STACK} octets {:>12}", "stage", "stack", "instructions");
    let mut stacks = BTreeMap::new();
    for program in &programs {
        let below = |call: &Call| functions.iter().find(|f| f.name == call.callee).map(|f| f.stack);
        let called = program.calls.iter().filter_map(below).max().unwrap_or(0);
        let stack = program.stack + called;
        println!("{:10} {stack:8} {:26}", program.name, program.instructions);
        stacks.insert(program.name.as_str(), stack);
    }
    for name in Stage::ALL.iter().map(|stage| stage.name()).chain(["capture"]) {
        let stack = stacks.get(name);
        assert!(stack.is_some_and(|stack| *stack <= MAX_STACK), "{name}: {stack:?}");
    }
}

#[test]
fn no_stage_loops_over_octets_without_a_reason() {
    let mut calls: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let programs = Program::all(PROGRAMS);
    for program in &programs {
        for call in &program.calls {
            println!("{:10} calls {} at instruction {}", program.name, call.callee, call.at);
            *calls.entry((&program.name, &call.callee)).or_default() += 1;
        }
    }
    for Allowed { stage, callee, calls: most, reason } in ALLOWED {
        let found = calls.remove(&(stage, callee)).unwrap_or(0);
        println!("{stage:10} may call {callee} {most} times: {reason}");
        assert!(found > 0, "{stage} does not call {callee}: take it off the list");
        assert!(found <= *most, "{stage} calls {callee} {found} times, at most {most}: {reason}");
    }
    assert!(calls.is_empty(), "loops over octets on the way of a packet: {calls:?}");
}

/// The kernel's word that this user may not load programs: then the object is not at fault. The
/// verifier's own refusals are `EACCES`, which is the same kind of error.
fn refusal(error: &Error) -> Option<&std::io::Error> {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .find(|io| io.raw_os_error() == Some(EPERM))
}

/// `EPERM` of errno(3).
const EPERM: i32 = 1;

/// One function of the object.
#[derive(Debug, Default, PartialEq, Eq)]
struct Program {
    name: String,
    instructions: usize,
    /// The most negative offset from the frame pointer, as a positive number.
    stack: i32,
    calls: Vec<Call>,
}

/// A call of another function of the object.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    /// Counted from the start of the program.
    at: usize,
    callee: String,
}

impl Program {
    /// The functions of one section of the object, in the order of their code.
    fn all(section: &str) -> Vec<Self> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../ebpf/castellum.bpf.o");
        let octets = std::fs::read(path).unwrap();
        let elf: ElfFile64 = ElfFile64::parse(&*octets).unwrap();
        let section = elf.section_by_name(section).unwrap();
        let code = section.data().unwrap();
        let functions = elf.symbols().filter(|symbol| {
            symbol.section_index() == Some(section.index())
                && symbol.kind() == object::SymbolKind::Text
        });
        let mut programs: Vec<_> = functions
            .map(|symbol| {
                let start = usize::try_from(symbol.address()).unwrap();
                let end = start + usize::try_from(symbol.size()).unwrap();
                let name = symbol.name().unwrap().to_owned();
                let callee = |at: usize, to: i64| callee(&elf, &section, start + at * 8, to);
                (start, Self::read(name, &instructions(&code[start..end]), callee))
            })
            .collect();
        programs.sort_by_key(|(start, _)| *start);
        programs.into_iter().map(|(_, program)| program).collect()
    }

    /// Reads one function's instructions; `callee` names what the instruction at a place calls.
    fn read(name: String, code: &[Instruction], callee: impl Fn(usize, i64) -> String) -> Self {
        let mut program = Self { name, instructions: code.len(), ..Self::default() };
        // Where in the stack each register points, for those that do.
        let mut frame = [None; 16];
        frame[FRAME_POINTER] = Some(0);
        for (at, instruction) in code.iter().enumerate() {
            let Instruction { code, to, from, offset, constant } = *instruction;
            let base = match code & CLASS {
                LDX => frame[from],
                ST | STX => frame[to],
                _ => None,
            };
            let mut deepest = base.map(|base: i32| base + i32::from(offset));
            match code {
                MOVE_REGISTER => frame[to] = frame[from],
                ADD_CONSTANT => {
                    frame[to] = frame[to].map(|base| base + constant);
                    deepest = frame[to];
                }
                CALL => {
                    // The registers that a call does not keep.
                    frame[..=5].fill(None);
                    if from == OF_THE_OBJECT {
                        let target = i64::try_from(at).unwrap() + i64::from(constant);
                        program.calls.push(Call { at, callee: callee(at, target + 1) });
                    }
                }
                _ if matches!(code & CLASS, LDX | LD | ALU | ALU64) => frame[to] = None,
                _ => {}
            }
            program.stack = program.stack.max(-deepest.unwrap_or(0));
        }
        program
    }
}

/// The name of what the call at octet `at` of `section` calls: by its relocation, else by the
/// distance in the instruction, which leads to `to` instructions behind the program's start.
fn callee<'a>(
    elf: &ElfFile64<'a>,
    section: &impl object::ObjectSection<'a>,
    at: usize,
    to: i64,
) -> String {
    let here = u64::try_from(at).unwrap();
    let Some((_, relocation)) = section.relocations().find(|(octet, _)| *octet == here) else {
        return format!("a function of its own section, {to} instructions from its start");
    };
    let RelocationTarget::Symbol(index) = relocation.target() else { panic!("{relocation:?}") };
    let symbol = elf.symbol_by_index(index).unwrap();
    symbol.name().unwrap().to_owned()
}

/// One instruction as RFC 9669 3 lays it out.
#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
    to: usize,
    from: usize,
    offset: i16,
    constant: i32,
}

const FRAME_POINTER: usize = 10;
/// The class of an instruction: RFC 9669 3.3.
const CLASS: u8 = 0x07;
const LD: u8 = 0x00;
const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const ALU: u8 = 0x04;
const ALU64: u8 = 0x07;
/// `to = from`, 64 bits.
const MOVE_REGISTER: u8 = 0xbf;
/// `to += constant`, 64 bits.
const ADD_CONSTANT: u8 = 0x07;
const CALL: u8 = 0x85;
/// In the source register of a call: a function of this object, not a helper of the kernel.
const OF_THE_OBJECT: usize = 1;

fn instructions(code: &[u8]) -> Vec<Instruction> {
    let (instructions, []) = code.as_chunks::<8>() else { panic!("half an instruction") };
    instructions
        .iter()
        .map(|&[code, registers, o0, o1, c0, c1, c2, c3]| Instruction {
            code,
            to: usize::from(registers & 0x0f),
            from: usize::from(registers >> 4),
            offset: i16::from_le_bytes([o0, o1]),
            constant: i32::from_le_bytes([c0, c1, c2, c3]),
        })
        .collect()
}

/// What `llvm-objdump -d` prints for these octets stands behind each line.
#[test]
fn the_stack_is_what_loads_stores_and_pointers_reach() {
    let code = [
        0x63, 0x8a, 0x80, 0xff, 0x00, 0x00, 0x00, 0x00, // *(u32 *)(r10 - 0x80) = w8
        0xbf, 0xa2, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // r2 = r10
        0x07, 0x02, 0x00, 0x00, 0x60, 0xff, 0xff, 0xff, // r2 += -0xa0
        0x73, 0x12, 0xf8, 0xff, 0x00, 0x00, 0x00, 0x00, // *(u8 *)(r2 - 0x8) = w1
        0x61, 0x92, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // w2 = *(u32 *)(r9 + 0x0)
        0x07, 0x02, 0x00, 0x00, 0x00, 0xfe, 0xff, 0xff, // r2 += -0x200
        0x85, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, // call 0x1
        0x85, 0x10, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, // call -0x1
    ];
    let program = Program::read("p".to_owned(), &instructions(&code), |at, to| {
        assert_eq!((at, to), (7, 7));
        "memset".to_owned()
    });
    assert_eq!(program.stack, 0xa8);
    assert_eq!(program.instructions, 8);
    assert_eq!(program.calls, [Call { at: 7, callee: "memset".to_owned() }]);
}
