// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// A redirect to a link-local address, such as a cloud's metadata service, is rejected.
func ExampleTransport_RoundTrip() {
	t := transport.New(transport.Options{})
	defer t.Close()
	ctx := transport.NewContext(context.Background(), transport.Route{Redirected: true})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://169.254.169.254/latest/meta-data/", nil)
	if err != nil {
		panic(err)
	}
	_, err = t.RoundTrip(req)
	var rejected *transport.AddressError
	fmt.Println(errors.As(err, &rejected), rejected.Kind)
	// Output: true link-local or reserved
}
