// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"time"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/certificate"
)

// connectionRules are the rules of the theme "connection".
var connectionRules = []Rule{{
	Rule: contract.Rule{
		ID:       "connection/certificate",
		Severity: contract.Error,
		Source:   proposal("Registering Runtime Extensions"),
		Why:      "Cluster API calls extensions over HTTPS and verifies the certificate with the caBundle of the ExtensionConfig, for the host of the URL or <service>.<namespace>.svc. With another certificate every call fails.",
		Fix:      "Serve a certificate for the host name, signed by an authority of the caBundle, and rotate it before it expires.",
	},
	Server: func(t *Transcript) []Problem {
		if err := t.Discovery[0].Err; certificate.IsRejected(err) {
			return problems("", "the certificate is not trusted: %v", err)
		}
		return nil
	},
}, {
	Rule: contract.Rule{
		ID:       "connection/certificate-expiry",
		Severity: contract.Warning,
		Source:   proposal("Security Model"),
		Why:      "With an expired certificate every call fails, and Clusters wait.",
		Fix:      "Rotate the certificate, for example with cert-manager or OpenShift's service CA.",
	},
	Server: func(t *Transcript) []Problem {
		if left := t.Connection.Expires.Sub(t.Time); !t.Connection.Expires.IsZero() && left < expirySoon {
			return problems("", "the certificate expires at %s", t.Connection.Expires.UTC().Format(time.RFC3339))
		}
		return nil
	},
}, {
	Rule: contract.Rule{
		ID:       "connection/tls-version",
		Severity: contract.Warning,
		Source:   proposal("Security Model"),
		Why:      "TLS 1.0 and 1.1 are insecure and deprecated by RFC 8996.",
		Fix:      "Set the minimum version of the server to TLS 1.2.",
	},
	Server: func(t *Transcript) []Problem {
		if t.Connection.OldTLS {
			return problems("", "the server accepts TLS 1.1 or older")
		}
		return nil
	},
}}

// expirySoon is how long before its end a certificate should be rotated.
const expirySoon = 7 * 24 * time.Hour
