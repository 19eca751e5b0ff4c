//! Adds to an operating-system error the operation that met it.

use std::io;

/// An operating-system error and what was being done.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {cause}")]
struct Failure {
    operation: String,
    #[source]
    cause: io::Error,
}

/// Wraps `cause`; the kind is kept, and `source()` of the result is the bare error with its errno.
pub(crate) fn context(operation: impl Into<String>, cause: impl Into<io::Error>) -> io::Error {
    let cause = cause.into();
    io::Error::new(cause.kind(), Failure { operation: operation.into(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn keeps_the_kind_and_the_errno() {
        let error = context("set link eth7 up", io::Error::from_raw_os_error(1));

        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "set link eth7 up: Operation not permitted (os error 1)");
        let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.raw_os_error(), Some(1));
    }
}
