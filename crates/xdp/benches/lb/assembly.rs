//! BPF instructions, as many as a harness needs (RFC 9669).

/// One instruction, or half of a wide one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper.
    registers: u8,
    offset: i16,
    value: i32,
}

/// Octets of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Two,
    Four,
    Eight,
}

impl Width {
    const fn code(self) -> u8 {
        match self {
            Self::Four => 0x00,
            Self::Two => 0x08,
            Self::Eight => 0x18,
        }
    }

    pub(crate) const fn octets(self) -> i16 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

pub(crate) const R0: u8 = 0;
pub(crate) const R1: u8 = 1;
pub(crate) const R2: u8 = 2;
pub(crate) const R3: u8 = 3;
pub(crate) const R4: u8 = 4;
pub(crate) const R5: u8 = 5;
pub(crate) const R6: u8 = 6;

/// The helper that goes on with another program.
pub(crate) const TAIL_CALL: i32 = 12;
/// The helper that sends the frame out of an interface.
pub(crate) const REDIRECT: i32 = 23;

const fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, value }
}

/// `to = from`
pub(crate) const fn copy(to: u8, from: u8) -> Instruction {
    instruction(0xbf, to, from, 0, 0)
}

/// `to = value`
pub(crate) const fn set(to: u8, value: i32) -> Instruction {
    instruction(0xb7, to, 0, 0, value)
}

/// `to += value`
pub(crate) const fn add(to: u8, value: i32) -> Instruction {
    instruction(0x07, to, 0, 0, value)
}

/// `to += from`
pub(crate) const fn sum(to: u8, from: u8) -> Instruction {
    instruction(0x0f, to, from, 0, 0)
}

/// `to &= value`
pub(crate) const fn and(to: u8, value: i32) -> Instruction {
    instruction(0x57, to, 0, 0, value)
}

/// `to *= value`
pub(crate) const fn times(to: u8, value: i32) -> Instruction {
    instruction(0x27, to, 0, 0, value)
}

/// `to = *(from + offset)`
pub(crate) const fn load(width: Width, to: u8, from: u8, offset: i16) -> Instruction {
    instruction(0x61 | width.code(), to, from, offset, 0)
}

/// `*(to + offset) = from`
pub(crate) const fn store(width: Width, to: u8, offset: i16, from: u8) -> Instruction {
    instruction(0x63 | width.code(), to, from, offset, 0)
}

/// Skips `offset` instructions if `left > right`.
pub(crate) const fn skip_if_greater(left: u8, right: u8, offset: i16) -> Instruction {
    instruction(0x2d, left, right, offset, 0)
}

/// Calls a helper.
pub(crate) const fn call(helper: i32) -> Instruction {
    instruction(0x85, 0, 0, 0, helper)
}

/// Ends the program.
pub(crate) const EXIT: Instruction = instruction(0x95, 0, 0, 0, 0);

/// `to = value`, all 64 bits.
pub(crate) const fn wide(to: u8, value: u64) -> [Instruction; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    let (low, high) = (i32::from_le_bytes([a, b, c, d]), i32::from_le_bytes([e, f, g, h]));
    [instruction(0x18, to, 0, 0, low), instruction(0, 0, 0, 0, high)]
}

/// `to = the map`
pub(crate) const fn map(to: u8, fd: u32) -> [Instruction; 2] {
    [instruction(0x18, to, 1, 0, fd.cast_signed()), instruction(0, 0, 0, 0, 0)]
}

/// `to = the address of the array's first record`
pub(crate) const fn value(to: u8, fd: u32) -> [Instruction; 2] {
    [instruction(0x18, to, 2, 0, fd.cast_signed()), instruction(0, 0, 0, 0, 0)]
}
