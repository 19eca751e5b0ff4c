#!/bin/sh
# gredist's tests for any user: no root, no network namespace, no other program but cargo.
set -eu
cd "$(dirname "$0")"

set -- wire balance health datapath config daemon gredist
for crate in "$@"; do
    shift
    set -- "$@" --package "$crate"
done

status=0
cargo test --no-fail-fast "$@" || status=$?

cat <<'END'

Left to `cargo xtask test`, which takes root or a user namespace:
  raw sockets, routes and namespaces   crates netio, probe, testkit
  whole networks with real tunnels     crate labs
  other programs as peers              nft, tcpdump, Open vSwitch, promtool, scapy, ...
  the developer's tool itself          crate xtask, cargo xtask check
A test above that needs such a thing skips itself; `-- --show-output` prints its reason.
END
exit "$status"
