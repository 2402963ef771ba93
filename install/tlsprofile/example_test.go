// SPDX-License-Identifier: Apache-2.0

package tlsprofile_test

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/install/tlsprofile"
)

// A cluster without a profile has the profile Intermediate.
func ExampleOf() {
	fmt.Println(tlsprofile.Of(nil).MinVersion)
	fmt.Println(tlsprofile.Of(&configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType}).MinVersion)
	// Output:
	// VersionTLS12
	// VersionTLS13
}
