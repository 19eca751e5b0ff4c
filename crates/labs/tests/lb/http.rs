//! curl to nginx, through every mode, family and way of wiring.

use crate::bed;
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::done;
use labs::lb::mapping::Mapping;
use labs::lb::servers::Nginx;

/// The mapping from port 80 to all backends' 8080.
fn web(bed: &Bed, family: Family) -> Mapping {
    let id = match family {
        Family::V4 => "web4",
        Family::V6 => "web6",
    };
    let mapping = Mapping::new(id, &bed.vip(family, 10), "tcp", Some(80));
    (0..bed.backends.len()).fold(mapping, |mapping, number| {
        let name = format!("backend{}", number + 1);
        mapping.backend(&name, &bed.backend(family, number), ", port: 8080")
    })
}

fn url(bed: &Bed, family: Family, path: &str) -> String {
    match family {
        Family::V4 => format!("http://{}{path}", bed.vip(family, 10)),
        Family::V6 => format!("http://[{}]{path}", bed.vip(family, 10)),
    }
}

/// Downloads by curl from both backends, small and large, in both families.
fn downloads(name: &str, shape: Shape, twice: bool) {
    let Some(bed) = bed(name, shape, 2) else { return };
    if !twice {
        bed.route_backends().unwrap();
    }
    let servers: Vec<_> = bed.backends.iter().map(|host| Nginx::start(host).unwrap()).collect();
    let file = servers[0].file("big");
    let mappings = Family::ALL.map(|family| match twice {
        true => web(&bed, family).twice_nat(),
        false => web(&bed, family),
    });
    let balancer = Balancer::start(&bed, &mappings).unwrap();
    for family in Family::ALL {
        let mut seen = std::collections::BTreeMap::<String, u32>::new();
        for _ in 0..24 {
            let args = ["-sS", "--max-time", "5", &url(&bed, family, "/")];
            let answer = done(&bed.client, "curl", &args)
                .unwrap_or_else(|error| panic!("{family:?}: {error}: {}", balancer.summary()));
            *seen.entry(answer).or_default() += 1;
        }
        assert_eq!(seen.keys().collect::<Vec<_>>(), ["backend1", "backend2"], "{seen:?}");
        let big = url(&bed, family, "/big");
        let same = format!("curl -sS --max-time 15 '{big}' | cmp - {}", file.display());
        done(&bed.client, "sh", &["-c", &same])
            .unwrap_or_else(|error| panic!("{family:?}: {error}: {}", balancer.summary()));
    }
}

#[test]
fn curl_through_twice_nat_with_two_arms() {
    downloads("twice2", Shape::TwoArms, true);
}

#[test]
fn curl_through_twice_nat_with_one_arm() {
    downloads("twice1", Shape::OneArm, true);
}

#[test]
fn curl_through_nat_with_two_arms() {
    downloads("nat2", Shape::TwoArms, false);
}

#[test]
fn curl_through_nat_with_one_arm() {
    downloads("nat1", Shape::OneArm, false);
}
