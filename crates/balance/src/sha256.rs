//! SHA-256 (FIPS 180-4, 6.2), for fingerprints of tables.
//!
//! Written here because the crates that have it reach into the operating system to find the
//! processor's instructions, which a pure crate must not. Nothing secret passes through it.

use alloc::vec::Vec;

/// The first 32 fraction bits of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
const ROUNDS: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// The first 32 fraction bits of the square roots of the first 8 primes (FIPS 180-4, 5.3.3).
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The digest of a message.
pub(crate) fn sha256(message: &[u8]) -> [u8; 32] {
    let (blocks, rest) = message.as_chunks::<64>();
    let padded = padded(rest, message.len() as u64 * 8);
    let mut state = INITIAL;
    for block in blocks.iter().chain(padded.as_chunks::<64>().0) {
        compress(&mut state, block);
    }
    let mut digest = [0; 32];
    for (octets, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *octets = word.to_be_bytes();
    }
    digest
}

/// The last octets of a message, a one bit, zeros and the message's length: one block or two
/// (FIPS 180-4, 5.1.1).
fn padded(rest: &[u8], length_bits: u64) -> Vec<u8> {
    let mut padded = rest.to_vec();
    padded.push(0x80);
    padded.resize(if rest.len() < 56 { 56 } else { 120 }, 0);
    padded.extend(length_bits.to_be_bytes());
    padded
}

/// FIPS 180-4, 6.2.2.
fn compress(state: &mut [u32; 8], block: &[u8; 64]) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (constant, word) in ROUNDS.iter().zip(schedule(block)) {
        let sum1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = e & f ^ !e & g;
        let one =
            h.wrapping_add(sum1).wrapping_add(choice).wrapping_add(*constant).wrapping_add(word);
        let sum0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = a & b ^ a & c ^ b & c;
        let two = sum0.wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(one));
        (d, c, b, a) = (c, b, a, one.wrapping_add(two));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

/// The block's 16 words and 48 that follow from them. The bounds are constants: no index is checked
/// at run time.
fn schedule(block: &[u8; 64]) -> [u32; 64] {
    let mut words = [0u32; 64];
    for (word, octets) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*octets);
    }
    for at in 16..64 {
        let (early, late) = (words[at - 15], words[at - 2]);
        let sigma0 = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
        let sigma1 = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
        words[at] =
            words[at - 16].wrapping_add(sigma0).wrapping_add(words[at - 7]).wrapping_add(sigma1);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    /// NIST's example for one block, and the well-known digest of nothing.
    #[test]
    fn golden_values_hold() {
        for (message, expected) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            let digest = sha256(message.as_bytes());
            let hex: alloc::string::String =
                digest.iter().map(|octet| alloc::format!("{octet:02x}")).collect();
            assert_eq!(hex, expected, "{message}");
        }
    }

    #[test]
    fn every_length_of_the_last_block_agrees_with_another_implementation() {
        for length in 0..200 {
            let message = alloc::vec![0xa5; length];
            assert_eq!(sha256(&message)[..], Sha256::digest(&message)[..], "{length} octets");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_another_implementation(
            message in proptest::collection::vec(any::<u8>(), 0..2000),
        ) {
            prop_assert_eq!(&sha256(&message)[..], &Sha256::digest(&message)[..]);
        }
    }
}
