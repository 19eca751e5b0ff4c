//! What the fuzzer starts from: one input of each kind that the decoders tell apart.

use testkit::packet::{Fragments, Gre, gre, icmp, ipv4, ipv6};

type Seed = (&'static str, String, Vec<u8>);

const FRONTEND4: &str = "192.0.2.1";
const FRONTEND6: &str = "2001:db8::1";
const CLIENT4: &str = "198.51.100.7";
const CLIENT6: &str = "2001:db8:c::7";
const ROUTER4: &str = "203.0.113.77";
const ROUTER6: &str = "2001:db8:fff::77";

/// Every seed: target, name, octets.
pub(crate) fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (name, packet) in packets() {
        // The lower two bits of the first octet choose families: 0 and 2 an IPv4 frontend.
        let frontend = u8::from(packet[0] >> 4 == 6);
        for (world, suffix) in [(frontend, "same"), (frontend + 2, "cross")] {
            let octets = [&[world], &packet[..]].concat();
            seeds.push(("gre_process", format!("{name}-{suffix}"), octets));
        }
        seeds.push(("ip_parse", name.to_owned(), packet));
    }
    seeds.extend(replies());
    seeds.extend(errors());
    seeds.extend(headers());
    seeds.extend(texts());
    seeds
}

fn replies() -> Vec<Seed> {
    let message = |kind| icmp(kind, 0).echo(0x1234, 7).body([9; 8]);
    let v4 = |kind| ipv4(CLIENT4, FRONTEND4).icmp(message(kind)).build();
    let v6 = |kind| ipv6(CLIENT6, FRONTEND6).icmp(message(kind)).build()[40..].to_vec();
    let options = ipv4(CLIENT4, FRONTEND4).options([1; 8]).icmp(message(0)).build();
    let corrupt = ipv4(CLIENT4, FRONTEND4).icmp(message(0).bad_checksum()).build();
    [
        ("v4", v4(0)),
        ("v4-options", options),
        ("v4-corrupt", corrupt),
        ("v4-request", v4(8)),
        ("v6", v6(129)),
        ("v6-request", v6(128)),
    ]
    .map(|(name, octets)| ("icmp_reply", name.to_owned(), octets))
    .into()
}

fn headers_of_gre() -> [(&'static str, Gre); 5] {
    [
        ("plain", gre().payload([1; 8])),
        ("key", gre().key(1).payload([1; 8])),
        ("all", gre().key(1).checksum().sequence(9).payload([1; 9])),
        ("version", gre().version(1).protocol_type(0x880b).key(0x0004_0001)),
        ("routing", gre().routing().key(1)),
    ]
}

fn packets() -> Vec<(&'static str, Vec<u8>)> {
    let keyed = || gre().key(1).payload([1; 8]);
    let v4 = || ipv4(CLIENT4, FRONTEND4);
    let v6 = || ipv6(CLIENT6, FRONTEND6);
    let reply4 = ipv4(FRONTEND4, CLIENT4).gre(keyed()).build();
    let reply6 = ipv6(FRONTEND6, CLIENT6).gre(keyed()).build();
    let mut packets = Vec::new();
    for (name, header) in headers_of_gre() {
        let [four, six] = match name {
            "plain" => ["v4-plain", "v6-plain"],
            "key" => ["v4-key", "v6-key"],
            "all" => ["v4-all", "v6-all"],
            "version" => ["v4-version", "v6-version"],
            _ => ["v4-routing", "v6-routing"],
        };
        packets.push((four, v4().gre(header.clone()).build()));
        packets.push((six, v6().gre(header).build()));
    }
    packets.extend([
        ("v4-options", v4().options([7, 7, 4, 0, 0, 0, 0, 1]).gre(keyed()).build()),
        ("v4-source-route", v4().options([1, 131, 7, 4, 10, 0, 0, 9]).gre(keyed()).build()),
        ("v4-fragment", v4().more_fragments().gre(keyed()).build()),
        ("v4-checksum", v4().gre(keyed()).bad_checksum().build()),
        ("v4-ttl", v4().ttl(1).gre(keyed()).build()),
        ("v4-big", v4().dont_fragment().gre(gre().key(1).payload([1; 1500])).build()),
        ("v4-padded", [v4().gre(keyed()).build(), vec![0; 18]].concat()),
        ("v4-martian", ipv4("127.0.0.1", FRONTEND4).gre(keyed()).build()),
        ("v4-other", ipv4(CLIENT4, "192.0.2.2").udp(1, 2, b"x").build()),
        ("v4-echo", v4().icmp(icmp(8, 0).echo(1, 2)).build()),
        ("v4-error", ipv4(ROUTER4, FRONTEND4).icmp(icmp(3, 4).mtu(1400).body(reply4)).build()),
        ("v4-pool-reply", ipv4("10.0.0.1", "10.9.0.1").gre(keyed()).build()),
        ("v6-hop-limit", v6().hop_limit(1).gre(keyed()).build()),
        ("v6-big", v6().gre(gre().key(1).payload([1; 1500])).build()),
        ("v6-encap-limit", v6().destination_options([4, 1, 4, 1, 1, 0]).gre(keyed()).build()),
        (
            "v6-extensions",
            v6().hop_by_hop([])
                .routing(4, 0, [0; 20])
                .fragment(1, 0, Fragments::Last)
                .ah(1, 2, [7; 12])
                .gre(keyed())
                .build(),
        ),
        ("v6-segments-left", v6().routing(4, 1, [0; 20]).gre(keyed()).build()),
        ("v6-fragment", v6().fragment(1, 0, Fragments::More).gre(keyed()).build()),
        ("v6-mapped", ipv6("::ffff:198.51.100.7", FRONTEND6).gre(keyed()).build()),
        ("v6-echo", v6().icmp(icmp(128, 0).echo(1, 2)).build()),
        ("v6-error", ipv6(ROUTER6, FRONTEND6).icmp(icmp(2, 0).mtu(1400).body(reply6)).build()),
        (
            "v6-prefix-reply",
            ipv6("2001:db8:b::1", "2001:db8:64::198.51.100.7").gre(keyed()).build(),
        ),
    ]);
    packets
}

/// World, flags, TTL, type, code, the message's word, then the quote.
fn errors() -> Vec<Seed> {
    let keyed = || gre().key(1).payload([1; 40]);
    let four = [
        ("key", ipv4(FRONTEND4, CLIENT4).gre(keyed()).build()),
        ("short", ipv4(FRONTEND4, CLIENT4).gre(keyed().checksum()).build()[..28].to_vec()),
        ("options", ipv4(FRONTEND4, CLIENT4).options([1; 8]).gre(keyed()).build()),
        ("udp", ipv4(FRONTEND4, CLIENT4).udp(1, 2, b"x").build()),
    ];
    let six = [
        ("key", ipv6(FRONTEND6, CLIENT6).gre(keyed()).build()),
        ("short", ipv6(FRONTEND6, CLIENT6).gre(keyed().checksum()).build()[..48].to_vec()),
        ("options", ipv6(FRONTEND6, CLIENT6).destination_options([4, 1, 4]).gre(keyed()).build()),
        ("fragment", ipv6(FRONTEND6, CLIENT6).fragment(1, 0, Fragments::More).gre(keyed()).build()),
    ];
    let mut seeds = Vec::new();
    let mut seed = |name: String, head: [u8; 9], quote: &[u8]| {
        seeds.push(("icmp_error", name, [&head[..], quote].concat()));
    };
    for (name, quote) in &four {
        for world in [0, 2] {
            seed(format!("v4-{name}-{world}"), [world, 0, 64, 3, 4, 0, 0, 5, 0x78], quote);
        }
    }
    for (name, quote) in &six {
        for world in [1, 3] {
            seed(format!("v6-{name}-{world}"), [world, 0, 64, 2, 0, 0, 0, 5, 0x78], quote);
        }
    }
    seed("v4-plateau".into(), [2, 0, 64, 3, 4, 0, 0, 0, 0], &four[0].1);
    seed("v4-extension".into(), [2, 0, 64, 11, 0, 0, 8, 0, 0], &four[0].1);
    seed("v4-pointer".into(), [2, 0, 64, 12, 0, 9, 0, 0, 0], &four[0].1);
    seed("v6-pointer".into(), [3, 0, 64, 4, 0, 0, 0, 0, 6], &six[0].1);
    seed("v4-last-hop".into(), [0, 0, 1, 11, 0, 0, 0, 0, 0], &four[0].1);
    seeds
}

fn headers() -> Vec<Seed> {
    vec![
        ("wire_headers", "ipv4".into(), ipv4(CLIENT4, FRONTEND4).options([1; 4]).build()),
        ("wire_headers", "ipv6".into(), ipv6(CLIENT6, FRONTEND6).gre(gre()).build()),
        ("wire_headers", "gre".into(), gre().key(1).checksum().sequence(2).build()),
        ("wire_headers", "zeros".into(), vec![0; 41]),
        ("wire_headers", "ones".into(), vec![0xff; 41]),
    ]
}

fn texts() -> Vec<Seed> {
    let texts: [(&str, &[u8]); 8] = [
        ("plain", b"frontend=192.0.2.1\nbackend=10.0.0.1\nbackend=10.0.0.2\n"),
        ("comments", b"# all\n  a = b # c\n#\nx=#y\n"),
        ("crlf", b"\xef\xbb\xbfa=1\r\n\r\nb=2\r\n"),
        ("bad", b"=\na=\n=b\nc\n"),
        ("octets", b"a=\xff\nb=\0\nc=\x1b[31m\n"),
        ("spaces", "a\u{a0}=\u{2003}b\u{85}c\n".as_bytes()),
        ("marks", b"a==b#c # d # e\n"),
        ("empty", b""),
    ];
    texts.into_iter().map(|(name, text)| ("keyvalue", name.to_owned(), text.to_vec())).collect()
}
