//! Keys of services as octets, which have an order.

use datapath::lb::layout::ServiceKey;
use wire::Address;

pub(super) fn octets(key: &ServiceKey) -> [u8; 24] {
    let mut octets = [0; 24];
    octets[..16].copy_from_slice(&key.address.octets());
    octets[16..18].copy_from_slice(&key.port);
    octets[18] = key.protocol;
    octets
}

pub(super) fn from_octets(octets: &[u8; 24]) -> ServiceKey {
    let mut address = [0; 16];
    address.copy_from_slice(&octets[..16]);
    ServiceKey {
        address: Address::v6(address),
        port: [octets[16], octets[17]],
        protocol: octets[18],
        zero: 0,
        zero_too: 0,
    }
}
