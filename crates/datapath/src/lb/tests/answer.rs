//! ARP and neighbour discovery. The frames, questions and answers, were built by scapy 2.5.0.

use super::*;
use testkit::packet::{
    arp_reply, arp_request, neighbour_advertisement, neighbour_solicitation, solicited_node,
};

const ASKER_MAC: Mac = [2, 0, 0, 0, 0, 0x0c];
const ASKER4: &str = "203.0.113.7";
const ASKER6: &str = "2001:db8::7";

const ARP_REQUEST: &str = "ffffffffffff02000000000c0806000108000604000102000000000ccb007107\
     000000000000cb00710a";
const ARP_REPLY: &str = "02000000000c020000000a0108060001080006040002020000000a01cb00710a\
     02000000000ccb007107";
const SOLICITATION: &str = "3333ff00001002000000000c86dd6000000000203aff20010db80000000000000000\
     00000007ff0200000000000000000001ff00001087001bfa0000000020010db8000000000000000000000010\
     010102000000000c";
const ADVERTISEMENT: &str = "02000000000c020000000a0186dd6000000000203aff20010db80000000000000000\
     0000001020010db800000000000000000000000788008050600000002001\
     0db80000000000000000000000100201020000000a01";
const PROBE: &str = "3333ff00001002000000000c86dd6000000000183aff000000000000000000000000\
     00000000ff0200000000000000000001ff00001087004ccf0000000020010db8000000000000000000000010";
const TO_ALL_NODES: &str = "333300000001020000000a0186dd6000000000203aff20010db80000000000000000\
     00000010ff0200000000000000000000000000018800ef0c2000000020010db8000000000000000000000010\
     0201020000000a01";
const UNICAST: &str = "020000000a0102000000000c86dd6000000000183aff20010db80000000000000000\
     0000000720010db80000000000000000000000108700ef5a0000000020010db8000000000000000000000010";

fn octets(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u32> = hexadecimal.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

/// A node that owns both virtual addresses.
fn owner() -> World {
    let mut world = World::new();
    world.owns(VIP4);
    world.owns(VIP6);
    world
}

#[test]
fn questions_of_another_implementation_get_the_answers_it_would_give() {
    for (name, question, answer) in [
        ("ARP", ARP_REQUEST, ARP_REPLY),
        ("solicitation", SOLICITATION, ADVERTISEMENT),
        ("without a sender", PROBE, TO_ALL_NODES),
        ("without an option: too short for its answer", UNICAST, ADVERTISEMENT),
    ] {
        let outcome = owner().receive(FRONT, &octets(question));
        assert_eq!(outcome.verdict, Verdict::Transmit, "{name}");
        assert_eq!(outcome.frame, octets(answer), "{name}");
    }
}

#[test]
fn answers_stay_in_their_vlan() {
    let question = ethernet(ASKER_MAC, BROADCAST).tag(0x88a8, 7).vlan(8);
    let answer = ethernet(FRONT_MAC, ASKER_MAC).tag(0x88a8, 7).vlan(8);
    let question = question.arp(arp_request(ASKER_MAC, ASKER4, VIP4)).padded().build();
    let answer = answer.arp(arp_reply(FRONT_MAC, VIP4, ASKER_MAC, ASKER4)).padded().build();
    owner().receive(FRONT, &question).turns_into(&answer);

    let (group, group_mac) = solicited_node(VIP6);
    for option in [None, Some(ASKER_MAC)] {
        let question = ethernet(ASKER_MAC, group_mac).tag(0x8100, 0x6007);
        let answer = ethernet(FRONT_MAC, ASKER_MAC).tag(0x8100, 0x6007);
        for (question, answer) in
            [(question.clone(), answer.clone()), (question.vlan(8), answer.vlan(8))]
        {
            let message = neighbour_solicitation(VIP6, option);
            let packet = ipv6(ASKER6, &group).hop_limit(255).icmp(message);
            let message = neighbour_advertisement(VIP6, 0x60, FRONT_MAC);
            let expected = ipv6(VIP6, ASKER6).hop_limit(255).icmp(message);
            let answer = answer.ipv6(expected).build();
            owner().receive(FRONT, &question.ipv6(packet).build()).turns_into(&answer);
        }
    }
}

#[test]
fn a_probe_without_a_sender_is_answered() {
    let question = ethernet(ASKER_MAC, BROADCAST).arp(arp_request(ASKER_MAC, "0.0.0.0", VIP4));
    let answer = arp_reply(FRONT_MAC, VIP4, ASKER_MAC, "0.0.0.0");
    let answer = ethernet(FRONT_MAC, ASKER_MAC).arp(answer).build();
    owner().receive(FRONT, &question.build()).turns_into(&answer);
}

#[test]
fn translation_addresses_are_answered_for() {
    let mut world = World::new();
    let owned = Owned { until_ns: u64::MAX, kind: owned_kind::SOURCE, zero: 0 };
    world.tables.owned.insert(address("203.0.113.99"), owned);
    let question =
        ethernet(ASKER_MAC, BROADCAST).arp(arp_request(ASKER_MAC, ASKER4, "203.0.113.99"));
    assert_eq!(world.receive(FRONT, &question.build()).verdict, Verdict::Transmit);
}

#[test]
fn questions_about_addresses_of_others_pass() {
    let mut world = owner();
    let frame = || ethernet(ASKER_MAC, BROADCAST);
    world.receive(FRONT, &frame().arp(arp_request(ASKER_MAC, ASKER4, NODE4)).build()).passes();
    let reply = arp_reply(ASKER_MAC, VIP4, FRONT_MAC, ASKER4);
    world.receive(FRONT, &frame().arp(reply.clone()).build()).passes();
    world.receive(FRONT, &frame().arp(reply.operation(3)).build()).passes();
    let (group, mac) = solicited_node(VIP6);
    let asked = |about: &str| neighbour_solicitation(about, Some(ASKER_MAC));
    let packet = ipv6(ASKER6, &group).hop_limit(255).icmp(asked(NODE6));
    world.receive(FRONT, &ethernet(ASKER_MAC, mac).ipv6(packet).build()).passes();
    // Through a router it proves nothing (RFC 4861 7.1.1).
    let packet = ipv6(ASKER6, &group).hop_limit(254).icmp(asked(VIP6));
    world.receive(FRONT, &ethernet(ASKER_MAC, mac).ipv6(packet).build()).passes();
}

#[test]
fn an_address_is_answered_for_only_while_it_is_ours() {
    let mut world = owner();
    let lease = Owned { until_ns: 1000, kind: owned_kind::VIRTUAL, zero: 0 };
    world.tables.owned.insert(address(VIP4), lease);
    world.tables.owned.insert(address(VIP6), lease);
    for question in [ARP_REQUEST, SOLICITATION] {
        world.tables.boot_ns = 999;
        assert_eq!(world.receive(FRONT, &octets(question)).verdict, Verdict::Transmit);
        world.tables.boot_ns = 1000;
        world.receive(FRONT, &octets(question)).passes();
    }
}

#[test]
fn a_question_cut_short_passes() {
    for question in [ARP_REQUEST, SOLICITATION, UNICAST] {
        let whole = octets(question);
        // An option may be missing, the message itself may not.
        for length in 0..whole.len().min(78) {
            let outcome = owner().receive(FRONT, &whole[..length]);
            // A unicast one is for an address of ours, so that nobody else may have it.
            let kept = question == UNICAST && length >= 54;
            assert_eq!(outcome.verdict == Verdict::Pass, !kept, "{length} of {question}");
        }
    }
}
