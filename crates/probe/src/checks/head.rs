//! The head of an HTTP/1 response (RFC 9112 4), of which only the status counts.
//!
//! Reads what a backend sent, which may be anything: no input panics, none is kept beyond
//! [`MAX_HEAD_BYTES`].

use std::ops::ControlFlow;

/// The longest head of one response. 16 KiB is twice what nginx and Apache
/// accept in a request head by default.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The most header fields of one response; Apache accepts 100 in a request.
pub const MAX_HEADERS: usize = 128;

/// Why this is no response head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("malformed response head: {0}")]
    Syntax(#[from] httparse::Error),
    #[error("response head with more than {MAX_HEADERS} fields")]
    TooManyFields,
    #[error("response head over {MAX_HEAD_BYTES} bytes")]
    TooLong,
}

/// Collects bytes until the head of the final response is complete.
#[derive(Debug, Default)]
pub(super) struct Head {
    bytes: Vec<u8>,
}

impl Head {
    /// How many more bytes may belong to a head.
    pub(super) fn room(&self) -> usize {
        MAX_HEAD_BYTES - self.bytes.len()
    }

    /// Nothing has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds what arrived, at most [`room`](Self::room) bytes of it: breaks with the status once
    /// the head is complete.
    pub(super) fn handle(&mut self, bytes: &[u8]) -> Result<ControlFlow<u16>, Malformed> {
        let bytes = bytes.get(..self.room()).unwrap_or(bytes);
        self.bytes.extend_from_slice(bytes);
        while let Some((status, len)) = parse(&self.bytes)? {
            // Interim responses precede the final one; 101 would be the final one of an upgrade
            // that nobody asked for (RFC 9110 15.2).
            if !(100..200).contains(&status) || status == 101 {
                return Ok(ControlFlow::Break(status));
            }
            self.bytes.drain(..len);
        }
        if self.room() == 0 { Err(Malformed::TooLong) } else { Ok(ControlFlow::Continue(())) }
    }
}

/// Status and length of a complete head.
fn parse(bytes: &[u8]) -> Result<Option<(u16, usize)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut fields);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => Ok(response.code.map(|status| (status, len))),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(Malformed::TooManyFields),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feed(pieces: &[&[u8]]) -> Result<Option<u16>, Malformed> {
        let mut head = Head::default();
        for piece in pieces {
            if let ControlFlow::Break(status) = head.handle(piece)? {
                return Ok(Some(status));
            }
        }
        Ok(None)
    }

    #[test]
    fn status_is_told_once_the_head_is_complete_however_it_is_cut() {
        let responses: [(&str, u16); 6] = [
            ("HTTP/1.1 200 OK\r\n\r\n", 200),
            ("HTTP/1.0 204 No Content\r\nServer: x\r\n\r\n", 204),
            ("HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n", 302),
            ("HTTP/1.1 503\r\n\r\n", 503),
            ("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n", 404),
            ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", 101),
        ];
        for (text, status) in responses {
            for cut in 0..text.len() {
                let (first, second) = text.as_bytes().split_at(cut);
                assert_eq!(feed(&[first]), Ok(None), "{cut} bytes of {text:?}");
                assert_eq!(feed(&[first, second]), Ok(Some(status)), "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_head_is_refused_with_its_cause() {
        let many = "HTTP/1.1 200 OK\r\n".to_owned() + &"a: b\r\n".repeat(MAX_HEADERS + 1) + "\r\n";
        let long = "HTTP/1.1 200 OK\r\nx: ".to_owned() + &"y".repeat(MAX_HEAD_BYTES);
        for (text, cause) in [
            ("SSH-2.0-OpenSSH_9.2\r\n", "malformed response head: invalid HTTP version"),
            ("HTTP/2 200\r\n\r\n", "malformed response head: invalid HTTP version"),
            ("HTTP/1.1 2x0 OK\r\n\r\n", "malformed response head: invalid response status"),
            ("HTTP/1.1 200 OK\r\n: x\r\n\r\n", "malformed response head: invalid header name"),
            (&many, "response head with more than 128 fields"),
            (&long, "response head over 16384 bytes"),
        ] {
            let error = feed(&[text.as_bytes()]).unwrap_err();
            assert_eq!(error.to_string(), cause, "{text:.20}");
        }
    }

    #[test]
    fn endless_interim_responses_do_not_grow_the_memory() {
        let mut head = Head::default();
        for _ in 0..10 * MAX_HEAD_BYTES {
            assert_eq!(
                head.handle(b"HTTP/1.1 100 Continue\r\n\r\n"),
                Ok(ControlFlow::Continue(()))
            );
        }
        assert!(head.is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_stay_within_the_limit(
            pieces in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..300),
                    Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
                    Just(b"a: b\r\n".to_vec()),
                    Just(b"\r\n".to_vec()),
                    Just(vec![b'x'; 9000]),
                ],
                0..20,
            ),
        ) {
            let mut head = Head::default();
            for piece in &pieces {
                let result = head.handle(piece);
                prop_assert!(head.bytes.len() <= MAX_HEAD_BYTES);
                if result != Ok(ControlFlow::Continue(())) {
                    break;
                }
            }
        }
    }
}
