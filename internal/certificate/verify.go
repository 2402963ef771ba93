// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/tls"
	"errors"
)

// IsRejected reports whether err is from a TLS client that rejected the certificate of the
// server: an unknown authority, another host, an expired certificate, or any other reason.
func IsRejected(err error) bool {
	_, rejected := errors.AsType[*tls.CertificateVerificationError](err)
	return rejected
}
